//! How fast is a model server at what an agent does?
//!
//! Any server with OpenAI's chat completions can be asked, so ours and its peers answer the same requests in one run, in
//! turns. [`speed`] has single numbers (prompts computed, tokens generated, a long prompt that is cached but for its
//! end, a file written anew with one change); [`arms`] replays the conversation of [`trace`] under what happens to
//! agents: a cache that is off, two agents at once, children, a restart, a client that changes the first line.

pub mod arms;
pub mod client;
pub mod plot;
pub mod speed;
pub mod trace;

/// The load average of the last minute; 0 where the system does not tell.
pub fn load() -> f64 {
    let told = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    told.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0.0)
}

/// The middle one, or the mean of the two in the middle; NaN of nothing.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
