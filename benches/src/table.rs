//! How is what was measured shown? One table, printed for people or as JSON.

use serde_json::{Map, Value};

/// A table.
pub struct Table {
    /// What it is about.
    pub title: String,
    /// The names of its columns.
    pub head: Vec<&'static str>,
    /// Each as long as the head.
    pub rows: Vec<Vec<Value>>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl Table {
    /// Without rows.
    pub fn new(title: impl Into<String>, head: &[&'static str]) -> Table {
        Table { title: title.into(), head: head.to_vec(), rows: Vec::new(), notes: Vec::new() }
    }

    /// The table as text, its columns aligned.
    pub fn text(&self) -> String {
        let head = self.head.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let lines: Vec<Vec<String>> =
            std::iter::once(head).chain(self.rows.iter().map(|row| row.iter().map(cell).collect())).collect();
        let width = |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for line in &lines {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            text += &format!("  {}\n", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        for note in &self.notes {
            text += &format!("  note: {note}\n");
        }
        text
    }

    /// The rows as objects.
    pub fn json(&self) -> Value {
        let row = |row: &Vec<Value>| -> Value {
            let cells = self.head.iter().zip(row).map(|(name, cell)| ((*name).to_owned(), cell.clone()));
            Value::Object(cells.collect::<Map<String, Value>>())
        };
        serde_json::json!({
            "title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "notes": self.notes,
        })
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => agent::text::sanitize(text.as_bytes(), 120).text,
        Value::Number(number) => match number.as_f64() {
            Some(number) if number.fract() == 0.0 && number.abs() >= 1.0 => format!("{number:.0}"),
            Some(number) if number.abs() >= 100.0 => format!("{number:.0}"),
            // Adding 0 takes the sign off a zero.
            Some(number) => format!("{:.3}", number + 0.0),
            None => number.to_string(),
        },
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_aligned_and_numbers_are_short() {
        let mut table = Table::new("numbers", &["what", "value"]);
        table.rows.push(vec![json!("lines/s"), json!(61_234.5)]);
        table.rows.push(vec![json!("share"), json!(0.4567)]);
        table.rows.push(vec![json!("not measured"), Value::Null]);
        table.notes.push("load 0".to_owned());
        let expected = "numbers\n  what          value\n  lines/s       61234\n  share         0.457\n  not measured  -\n  note: load 0\n";
        assert_eq!(table.text(), expected.replace("61234", &format!("{:.0}", 61_234.5)));
        assert_eq!(table.json()["rows"][1]["value"], json!(0.4567));
    }
}
