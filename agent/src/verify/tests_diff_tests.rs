//! Fakes that must be seen, and honest changes that must not.

use super::*;

#[track_caller]
fn check(path: &str, before: &str, after: &str, expected: &[Loss]) {
    let found = compare(path, before, after);
    let kinds: Vec<Loss> = found.iter().map(|loss| loss.loss).collect();
    assert_eq!(kinds, expected, "{before}\n---\n{after}\n{found:#?}");
}

const PY: &str = "import pytest\n\ndef test_a():\n    assert f(1) == 2\n    assert f(2) == 30\n\ndef test_b():\n    assert g('x') == 'yes'\n";

#[test]
fn a_test_that_is_gone_is_seen() {
    check("test_a.py", PY, "def test_b():\n    assert g('x') == 'yes'\n", &[Loss::Removed]);
    check("test_a.py", PY, "", &[Loss::Removed, Loss::Removed]);
    check("test_a.py", PY, &PY.replace("def test_b", "def no_test_b"), &[Loss::Removed]);
    check("a.test.js", "it('adds', () => {\n  expect(f(1)).toBe(2);\n});\n", "\n", &[Loss::Removed]);
    check("a_test.go", "func TestA(t *testing.T) {\n\tif f(1) != 2 {\n\t\tt.Fatal(1)\n\t}\n}\n", "", &[Loss::Removed]);
    check(
        "src/a.rs",
        "#[test]\nfn adds() {\n    assert_eq!(f(1), 2);\n}\n",
        "fn adds() {\n    assert_eq!(f(1), 2);\n}\n",
        &[Loss::Removed],
    );
    check(
        "ATest.java",
        "class A {\n  @Test\n  void adds() {\n    assertEquals(2, f(1));\n  }\n}\n",
        "class A {\n}\n",
        &[Loss::Removed],
    );
}

#[test]
fn a_test_that_does_not_run_any_more_is_seen() {
    check("test_a.py", PY, &PY.replace("def test_b", "@pytest.mark.skip\ndef test_b"), &[Loss::Skipped]);
    check("test_a.py", PY, &PY.replace("def test_b", "@pytest.mark.xfail(reason='x')\ndef test_b"), &[Loss::Skipped]);
    check("test_a.py", PY, &PY.replace("    assert g", "    return\n    assert g"), &[Loss::Skipped]);
    check("test_a.py", PY, &PY.replace("    assert g('x')", "    if False:\n        assert g('x')"), &[Loss::Skipped]);
    check(
        "a.test.ts",
        "it('adds', () => {\n  expect(f(1)).toBe(2);\n});\n",
        "it.skip('adds', () => {\n  expect(f(1)).toBe(2);\n});\n",
        &[Loss::Skipped],
    );
    check(
        "a_test.go",
        "func TestA(t *testing.T) {\n\tcheck(t)\n}\n",
        "func TestA(t *testing.T) {\n\tt.Skip(\"later\")\n\tcheck(t)\n}\n",
        &[Loss::Skipped],
    );
    check(
        "a.rs",
        "#[test]\nfn a() {\n    assert!(f());\n}\n",
        "#[test]\n#[ignore]\nfn a() {\n    assert!(f());\n}\n",
        &[Loss::Skipped],
    );
}

#[test]
fn a_test_that_asserts_less_is_seen() {
    check("test_a.py", PY, &PY.replace("    assert f(2) == 30\n", ""), &[Loss::FewerAsserts]);
    check("test_a.py", PY, &PY.replace("assert g('x') == 'yes'", "g('x')"), &[Loss::FewerAsserts]);
    check("test_a.py", PY, &PY.replace("== 'yes'", "is not None"), &[Loss::Weaker]);
    check("test_a.py", PY, &PY.replace("f(2) == 30", "f(2) >= 30"), &[Loss::Weaker]);
    check("test_a.py", PY, &PY.replace("g('x') == 'yes'", "g('x') == g('x')"), &[Loss::Weaker]);
    check("test_a.py", PY, &PY.replace("assert g('x') == 'yes'", "assert True"), &[Loss::Weaker]);
    check("test_a.py", PY, &PY.replace("== 30", "== 31"), &[Loss::ExpectedChanged]);
    check(
        "test_a.py",
        "def test_a():\n    assert f() == approx(1.5, abs=0.01)\n",
        "def test_a():\n    assert f() == approx(1.5, abs=0.9)\n",
        &[Loss::Weaker],
    );
    let caught = "def test_b():\n    try:\n        assert g('x') == 'yes'\n    except Exception:\n        pass\n";
    check("test_a.py", "def test_b():\n    assert g('x') == 'yes'\n", caught, &[Loss::Swallowed]);
    check(
        "a.test.js",
        "it('a', () => {\n  expect(f(1)).toEqual([1, 2]);\n});\n",
        "it('a', () => {\n  expect(f(1)).toBeTruthy();\n});\n",
        &[Loss::Weaker],
    );
    check(
        "a.rs",
        "#[test]\nfn a() {\n    assert_eq!(f(), 12);\n}\n",
        "#[test]\nfn a() {\n    assert!(f() > 0);\n}\n",
        &[Loss::Weaker],
    );
}

#[test]
fn honest_work_on_tests_is_not_reported() {
    check("test_a.py", PY, PY, &[]);
    check("test_a.py", PY, &PY.replace("test_b", "test_says_yes"), &[]);
    check("test_a.py", PY, &format!("{PY}\ndef test_c():\n    assert h() == 1\n"), &[]);
    check(
        "test_a.py",
        PY,
        &PY.replace("    assert f(2) == 30\n", "    assert f(2) == 30\n    assert f(3) == 40\n"),
        &[],
    );
    let table = "import pytest\n\n@pytest.mark.parametrize('n,e', [(1, 2), (2, 30)])\ndef test_a(n, e):\n    assert f(n) == e\n\ndef test_b():\n    assert g('x') == 'yes'\n";
    check("test_a.py", PY, table, &[]);
    let helper = "def check(n, e):\n    assert f(n) == e\n\ndef test_a():\n    check(1, 2)\n    check(2, 30)\n\ndef test_b():\n    assert g('x') == 'yes'\n";
    check("test_a.py", PY, helper, &[]);
    check(
        "test_a.py",
        PY,
        &PY.replace("    assert f(1) == 2\n", "    # one\n    assert f(1) == 2, 'one'\n")
            .replace("import pytest\n", ""),
        &[],
    );
    check(
        "test_a.py",
        "def test_a():\n    self.assertTrue(f() == 3)\n",
        "def test_a():\n    self.assertEqual(f(), 3)\n",
        &[],
    );
    check("notes.txt", "def test_a", "", &[]);
}

const TABLE: &str =
    "class T(TestCase):\n    def test_a(self):\n        self.assertEqual(f(2), 5)\n        self.assertEqual(f(3), 7)\n";

#[track_caller]
fn says(path: &str, before: &str, after: &str, expected: bool) {
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let change = Change { path: path.into(), before: bytes(before), after: bytes(after) };
    assert_eq!(still_says(&change), expected, "{after}");
}

#[test]
fn a_refactored_test_that_keeps_its_values_still_says_what_it_said() {
    let looped = "class T(TestCase):\n    def test_a(self):\n        for n, want in ((2, 5), (3, 7)):\n            self.assertEqual(f(n), want)\n";
    says("test_a.py", TABLE, looped, true);
    says("test_a.py", TABLE, &TABLE.replace("test_a", "test_f_of_small_numbers"), true);
    let named = |value: &str| {
        TABLE.replace("self.assertEqual(f(2), 5)", &format!("want = {value}\n        self.assertEqual(f(2), want)"))
    };
    says("test_a.py", TABLE, &named("5"), true);
    says("test_a.py", TABLE, &named("4"), false);
    let go = "func TestA(t *testing.T) {\n\tif f(1) != 2 {\n\t\tt.Fatal(1)\n\t}\n}\n";
    says("a_test.go", go, &format!("{go}\nfunc TestB(t *testing.T) {{\n\tt.Log(1)\n}}\n"), true);
}

#[test]
fn a_weakened_test_does_not_say_what_it_said() {
    for (from, to) in [
        ("assertEqual(f(2), 5)", "assertGreaterEqual(f(2), 5)"),
        ("5)", "4)"),
        ("    def test_a", "    @unittest.skip('x')\n    def test_a"),
        ("test_a", "check_a"),
        ("        self.assertEqual(f(2)", "        return\n        self.assertEqual(f(2)"),
    ] {
        says("test_a.py", TABLE, &TABLE.replace(from, to), false);
    }
    says("test_a.py", TABLE, "class T(TestCase):\n    def test_a(self):\n        pass\n", false);
    says("expected.txt", "5", "4", false);
}
