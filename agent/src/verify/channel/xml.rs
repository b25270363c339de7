//! Which tests does a report of JUnit's kind name, and how did each end?
//!
//! A strict reader of the little XML that such a report is: elements, quoted attributes, text, comments and CDATA. A document
//! type is refused, entities are the five of XML and numbers, depth and counts have limits; what does not fit is an error,
//! because a report that cannot be read is no report.

/// Tests of one report.
const CASES_MAX: usize = 100_000;
/// Elements inside of each other.
const DEPTH_MAX: usize = 64;

/// One test: its class and name, and how it ended.
pub type Case = (String, &'static str);

/// Reads a report; the error is why it is none.
pub fn cases(text: &str) -> Result<Vec<Case>, &'static str> {
    let mut found: Vec<Case> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut roots = 0;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let skipped = [("<?", "?>"), ("<!--", "-->"), ("<![CDATA[", "]]>")];
        if let Some((start, end)) = skipped.iter().find(|(start, _)| rest.starts_with(start)) {
            let inner = &rest[start.len()..];
            rest = &inner[inner.find(end).ok_or("something is not closed")? + end.len()..];
            continue;
        }
        if rest.starts_with("<!") {
            return Err("it has a document type");
        }
        if let Some(inner) = rest.strip_prefix("</") {
            let end = inner.find('>').ok_or("a tag is not closed")?;
            if open.pop().as_deref() != Some(inner[..end].trim_end()) {
                return Err("a tag closes what is not open");
            }
            rest = &inner[end + 1..];
            continue;
        }
        let (tag, after) = tag(&rest[1..])?;
        rest = after;
        roots += usize::from(open.is_empty());
        match (open.last().map(String::as_str), tag.name.as_str()) {
            (Some("testsuite"), "testcase") => {
                let id = format!("{} > {}", tag.attribute("classname")?, tag.attribute("name")?);
                found.push((id, "pass"));
            }
            (_, "testcase") => return Err("a test stands in no suite"),
            (Some("testcase"), "failure" | "error" | "skipped") => {
                let state = if tag.name == "skipped" { "skip" } else { "fail" };
                let last = found.last_mut().filter(|last| last.1 != "fail");
                if let Some(last) = last {
                    last.1 = state;
                }
            }
            _ => {}
        }
        if !tag.closed {
            open.push(tag.name);
        }
        if found.len() > CASES_MAX || open.len() > DEPTH_MAX {
            return Err("it is larger than a report");
        }
    }
    if open.is_empty() && roots == 1 { Ok(found) } else { Err("it is not whole") }
}

struct Tag {
    name: String,
    attributes: Vec<(String, String)>,
    closed: bool,
}

impl Tag {
    fn attribute(&self, name: &str) -> Result<&str, &'static str> {
        let mut of = self.attributes.iter().filter(|(key, _)| key == name);
        match (of.next(), of.next()) {
            (Some((_, value)), None) => Ok(value),
            _ => Err("a test has no name, or two"),
        }
    }
}

/// The tag that begins here, after its `<`, and what follows it.
fn tag(text: &str) -> Result<(Tag, &str), &'static str> {
    let word = |text: &str| {
        let end = text.find(|c: char| !(c.is_alphanumeric() || "_:.-".contains(c))).unwrap_or(text.len());
        if end == 0 { Err("a name is missing") } else { Ok((text[..end].to_owned(), end)) }
    };
    let (name, end) = word(text)?;
    let mut attributes = Vec::new();
    let mut rest = &text[end..];
    loop {
        let trimmed = rest.trim_start();
        if let Some(after) = trimmed.strip_prefix("/>") {
            return Ok((Tag { name, attributes, closed: true }, after));
        }
        if let Some(after) = trimmed.strip_prefix('>') {
            return Ok((Tag { name, attributes, closed: false }, after));
        }
        if trimmed.len() == rest.len() {
            return Err("a tag is not closed");
        }
        let (key, end) = word(trimmed)?;
        let value = trimmed[end..].trim_start().strip_prefix('=').ok_or("an attribute has no value")?.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\'')).ok_or("a value has no quotes")?;
        let end = value[1..].find(quote).ok_or("a value is not closed")?;
        attributes.push((key, unescaped(&value[1..=end])?));
        rest = &value[end + 2..];
    }
}

fn unescaped(text: &str) -> Result<String, &'static str> {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entity, rest) = part.split_once(';').ok_or("an entity is not closed")?;
        let number = |digits: &str, radix| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
        let c = match entity {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            _ => match entity.strip_prefix("#x") {
                Some(digits) => number(digits, 16),
                None => entity.strip_prefix('#').and_then(|digits| number(digits, 10)),
            },
        };
        out.push(c.ok_or("an entity is not known")?);
        out += rest;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name='a' tests=\"3\">\n  <properties><property name=\"x\" value=\"&#10;&quot;\"/></properties>\n";

    #[track_caller]
    fn check(body: &str, expected: Result<&[(&str, &str)], &str>) {
        let found = cases(&format!("{HEAD}{body}"));
        let found = found.as_ref().map(|found| found.iter().map(|(id, end)| (id.as_str(), *end)).collect::<Vec<_>>());
        assert_eq!(found.as_deref().map_err(|why| **why), expected, "{body}");
    }

    #[test]
    fn tests_are_read_with_how_they_ended() {
        let text = "<testcase name=\"adds\" classname=\"a.B\" time=\"0.1\"/><testcase classname='a.B' name='p&lt;1&gt;'><failure message=\"a > b\"><![CDATA[</testcase>]]></failure><system-out>&lt;</system-out></testcase><testcase name=\"x\" classname=\"a.B$C\"><!-- <error/> --><skipped/></testcase></testsuite>";
        check(text, Ok(&[("a.B > adds", "pass"), ("a.B > p<1>", "fail"), ("a.B$C > x", "skip")]));
        check("<testcase name='a' classname='b'><error/><skipped/></testcase></testsuite>", Ok(&[("b > a", "fail")]));
    }

    #[test]
    fn what_is_no_whole_report_is_refused() {
        check("", Err("it is not whole"));
        check("<testcase name='a' classname='b'/>", Err("it is not whole"));
        check("</testsuite><testsuite></testsuite>", Err("it is not whole"));
        check("<testcase name='a'/></testsuite>", Err("a test has no name, or two"));
        check("<testcase name='a' name='b' classname='c'/></testsuite>", Err("a test has no name, or two"));
        check("<a><testcase name='a' classname='b'/></a></testsuite>", Err("a test stands in no suite"));
        check("</properties></testsuite>", Err("a tag closes what is not open"));
        check("<testcase name='&e;' classname='b'/></testsuite>", Err("an entity is not known"));
        check("<!DOCTYPE a [<!ENTITY e 'x'>]></testsuite>", Err("it has a document type"));
        check(&"<a>".repeat(100), Err("it is larger than a report"));
    }

    proptest! {
        #[test]
        fn no_text_brings_the_reader_down(text in "[<>/!?&;='\"a-z\\[\\]# é-]{0,200}") {
            let _ = cases(&format!("{HEAD}{text}"));
            let _ = cases(&text);
        }
    }
}
