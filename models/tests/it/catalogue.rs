//! Is the built-in catalogue right, and is a wrong one refused with the place and the reason?

use models::{Catalogue, Role, Source};

const GOOD: &str = r#"
default_chat = "a"
default_embed = "b"
[[model]]
name = "a"
role = "chat"
licence = "MIT"
file = [{ name = "a.gguf", bytes = 1, sha256 = "0000000000000000000000000000000000000000000000000000000000000000" }]
[[model.source]]
kind = "hf"
repo = "owner/a"
revision = "0123456789012345678901234567890123456789"
[[model.source]]
kind = "wheels"
[[model.source.wheel]]
package = "a-part1"
version = "1.0"
sha256 = "1111111111111111111111111111111111111111111111111111111111111111"
members = { "a.gguf" = "a/1.bin" }
[[model]]
name = "b"
role = "embed"
licence = "MIT"
file = [{ name = "b.bin", bytes = 1, sha256 = "2222222222222222222222222222222222222222222222222222222222222222" }]
source = [{ kind = "path", path = "/b" }]
"#;

/// Replaces one piece of the good catalogue; the error must speak of it.
#[track_caller]
fn check(piece: &str, by: &str, expected: &str) {
    assert!(GOOD.contains(piece), "{piece}");
    match Catalogue::parse(&GOOD.replacen(piece, by, 1)) {
        Ok(_) => panic!("{by} was accepted"),
        Err(e) => assert!(e.to_string().contains(expected), "`{expected}` is not in: {e}"),
    }
}

#[test]
fn a_wrong_catalogue_is_refused_with_the_place_and_the_reason() {
    Catalogue::parse(GOOD).unwrap();
    check("default_chat = \"a\"", "default_chat = \"b\"", "default for Chat");
    check("default_embed = \"b\"", "", "default_embed");
    check("name = \"b\"", "name = \"a\"", "used twice");
    check("name = \"a\"", "name = \"../a\"", "a name is letters");
    check("role = \"chat\"", "role = \"talk\"", "unknown variant `talk`");
    check("licence", "license", "unknown field `license`");
    check("kind = \"hf\"", "kind = \"ftp\"", "unknown variant `ftp`");
    check("repo = \"owner/a\"", "repo = \"a\"", "is not `owner/name`");
    check("revision = \"0123456789", "revision = \"main", "is not a commit");
    check("repo = ", "repository = ", "unknown field `repository`");
    check(&"0".repeat(64), &"0".repeat(63), "is not a sha256");
    check(&"1".repeat(64), &"g".repeat(64), "is not a sha256");
    check("bytes = 1", "bytes = 0", "has no bytes");
    check("bytes = 1", "bytes = -1", "invalid value");
    check("\"a.gguf\", bytes", "\"a/b.gguf\", bytes", "is not a plain file name");
    check("\"a.gguf\" = ", "\"c.gguf\" = ", "unknown file `c.gguf`");
    check("members = { \"a.gguf\" = \"a/1.bin\" }", "members = {}", "has no member");
    check("members = { \"a.gguf\" = \"a/1.bin\" }", "", "missing field `members`");
    check("a/1.bin", "", "empty member name");
    check("package = \"a-part1\"", "package = \"--index-url\"", "is not a package name");
    check("version = \"1.0\"", "version = \"1.0; x\"", "is not an exact version");
    check("source = [{ kind = \"path\", path = \"/b\" }]", "source = []", "it has no source");
}

#[test]
fn the_built_in_catalogue_has_the_pinned_models_with_a_hub_before_the_wheels() {
    let catalogue = Catalogue::builtin();
    let chat = catalogue.default_for(Role::Chat);
    assert_eq!((chat.name.as_str(), chat.bytes()), ("qwen2.5-coder-1.5b-instruct", 1_117_320_768));
    assert!(matches!(chat.sources.as_slice(), [Source::Hf { .. }, Source::Wheels { wheels }] if wheels.len() == 22));
    let small = catalogue.get("qwen2.5-coder-0.5b-instruct").unwrap();
    assert!(matches!(small.sources.as_slice(), [Source::Hf { .. }, Source::Wheels { wheels }] if wheels.len() == 6));
    let embed = catalogue.default_for(Role::Embed);
    assert_eq!((embed.name.as_str(), embed.files.len()), ("all-minilm-l6-v2", 3));
}
