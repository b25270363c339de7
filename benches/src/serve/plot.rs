//! How do the turns of a conversation look? One SVG for each arm: seconds to the first token, tokens computed and ideal.

use super::arms::{Arm, Step};
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 28.0;
const GAP: f64 = 56.0;
/// Told apart by people who see few colours, too (after Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const IDEAL: &str = "#888888";

/// A line of a plot.
struct Line {
    name: String,
    colour: &'static str,
    values: Vec<f64>,
}

/// Both plots of an arm, one below the other.
pub fn svg(arm: Arm, steps: &[Step]) -> String {
    let of: Vec<&Step> = steps.iter().filter(|step| step.arm == arm).collect();
    let mut servers: Vec<&str> = Vec::new();
    for step in &of {
        if !servers.contains(&step.server.as_str()) {
            servers.push(&step.server);
        }
    }
    let line = |(at, server): (usize, &&str), value: &dyn Fn(&Step) -> f64| Line {
        name: (*server).to_owned(),
        colour: COLOURS[at % COLOURS.len()],
        values: of.iter().filter(|step| step.server == **server).map(|step| value(step)).collect(),
    };
    let seconds: Vec<Line> =
        servers.iter().enumerate().map(|pair| line(pair, &|step| step.answer.first_seconds)).collect();
    let known = |server: &str| of.iter().all(|step| step.server != server || step.answer.cached_tokens.is_some());
    let mut tokens: Vec<Line> = servers
        .iter()
        .enumerate()
        .filter(|(_, server)| known(server))
        .map(|pair| line(pair, &|step| step.answer.computed_tokens().unwrap_or(0) as f64))
        .collect();
    if let Some(first) = servers.first() {
        let ideal = line((0, first), &|step| step.ideal as f64);
        tokens.push(Line { name: "ideal".into(), colour: IDEAL, ..ideal });
    }
    let height = 2.0 * (TOP + HEIGHT + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{0}\" height=\"{height}\" fill=\"white\"/>\n",
        LEFT + WIDTH + 120.0
    );
    plot(&mut svg, TOP, &format!("arm {arm}: seconds to the first token, by request"), &seconds);
    plot(&mut svg, 2.0 * TOP + HEIGHT + GAP, &format!("arm {arm}: tokens computed, by request"), &tokens);
    svg + "</svg>\n"
}

fn plot(svg: &mut String, top: f64, title: &str, lines: &[Line]) {
    let most = lines.iter().flat_map(|line| &line.values).copied().fold(0.0, f64::max).max(1e-9);
    let count = lines.iter().map(|line| line.values.len()).max().unwrap_or(0).max(2);
    let x = |at: usize| LEFT + WIDTH * at as f64 / (count - 1) as f64;
    let y = |value: f64| top + HEIGHT * (1.0 - value / most);
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"{}\">{}</text>", top - 10.0, escaped(title));
    for part in 0..=4 {
        let value = most * f64::from(part) / 4.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{1}\" y2=\"{0:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{4}</text>",
            y(value),
            LEFT + WIDTH,
            LEFT - 6.0,
            y(value) + 4.0,
            if most >= 20.0 { format!("{value:.0}") } else { format!("{value:.2}") },
        );
    }
    for (at, line) in lines.iter().enumerate() {
        let points: Vec<String> =
            line.values.iter().enumerate().map(|(at, value)| format!("{:.1},{:.1}", x(at), y(*value))).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{0}\" stroke-width=\"1.5\" points=\"{1}\"/>\
             <text x=\"{2}\" y=\"{3}\" fill=\"{0}\">{4}</text>",
            line.colour,
            points.join(" "),
            LEFT + WIDTH + 10.0,
            top + 16.0 * (at as f64 + 1.0),
            escaped(&line.name),
        );
    }
}

fn escaped(text: &str) -> String {
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>();
    plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::client::Answer;
    use super::*;

    fn step(server: &str, turn: usize, first_seconds: f64, cached: Option<usize>) -> Step {
        let answer = Answer { first_seconds, prompt_tokens: 100, cached_tokens: cached, ..Answer::default() };
        Step { server: server.into(), arm: Arm::One, agent: 0, turn, ideal: 10, answer }
    }

    #[test]
    fn every_server_has_a_line_and_a_name_cannot_break_out() {
        let steps = [
            step("ours", 1, 2.0, Some(0)),
            step("ours", 2, 0.5, Some(90)),
            step("a<b>", 1, 4.0, None),
            step("a<b>", 2, 3.0, None),
        ];
        let svg = svg(Arm::One, &steps);
        // Two for the seconds, one and the ideal for the tokens: the other does not say what it computed.
        assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
        assert!(svg.contains("a&lt;b&gt;") && !svg.contains("a<b>"));
        assert!(svg.contains(">4.00<") && svg.trim_end().ends_with("</svg>"));
        assert_eq!(super::svg(Arm::Two, &steps).matches("<polyline").count(), 0);
    }
}
