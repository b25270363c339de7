//! The same kinds in Java, by what Maven and Gradle report: with Debian's own packages, which need no network.

use super::fakes::caught;
use super::*;

const CODE: (&str, &str) = (
    "src/main/java/calc/Calc.java",
    "package calc;\n\npublic class Calc {\n    public static int add(int a, int b) {\n        return a - b;\n    }\n}\n",
);
const JUNIT4: &str = "package calc;\n\nimport static org.junit.Assert.assertEquals;\n\nimport org.junit.Test;\n\npublic class CalcTest {\n    @Test\n    public void addsTwoNumbers() {\n        assertEquals(42, Calc.add(20, 22));\n    }\n\n    @Test\n    public void addsNothing() {\n        assertEquals(0, Calc.add(0, 0));\n    }\n}\n";
const JUNIT5: &str = "package calc;\n\nimport static org.junit.jupiter.api.Assertions.assertEquals;\n\nimport org.junit.jupiter.api.Nested;\nimport org.junit.jupiter.api.Test;\n\nclass CalcTest {\n    @Test\n    void addsTwoNumbers() {\n        assertEquals(42, Calc.add(20, 22));\n    }\n\n    @Nested\n    class Zero {\n        @Test\n        void addsNothing() {\n            assertEquals(0, Calc.add(0, 0));\n        }\n    }\n}\n";
const TEST: &str = "src/test/java/calc/CalcTest.java";
const POM: &str = "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>calc</groupId>\n  <artifactId>calc</artifactId>\n  <version>1</version>\n  <properties>\n    <maven.compiler.source>17</maven.compiler.source>\n    <maven.compiler.target>17</maven.compiler.target>\n    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>\n  </properties>\n  <dependencies>\n    <dependency>\n      <groupId>GROUP</groupId>\n      <artifactId>ARTIFACT</artifactId>\n      <version>VERSION</version>\n      <scope>test</scope>\n    </dependency>\n  </dependencies>\n</project>\n";
const GRADLE: &str = "apply plugin: 'java'\n\ndependencies {\n    testCompile files('/usr/share/java/junit4.jar', '/usr/share/java/hamcrest-core.jar')\n}\n";
const MVN: &[&str] = &["mvn", "-o", "-q", "-Dmaven.repo.local=/usr/share/maven-repo", "test"];
const REPORT: &str = "<testsuite name='calc.CalcTest'><testcase classname='calc.CalcTest' name='addsTwoNumbers'/><testcase classname='calc.CalcTest' name='addsNothing'/></testsuite>";
/// Stands before the real one on the path of classes.
const ASSERT: &str = "package org.junit;\n\npublic class Assert {\n    public static void assertEquals(long expected, long actual) {\n    }\n\n    public static void assertTrue(boolean condition) {\n    }\n}\n";

fn pom(group: &str, artifact: &str, version: &str) -> String {
    POM.replace("GROUP", group).replace("ARTIFACT", artifact).replace("VERSION", version)
}

/// There is Maven with what it needs to compile and to test.
fn maven_works() -> bool {
    let plugins = "/usr/share/maven-repo/org/apache/maven/plugins";
    let all = ["surefire", "compiler", "resources"].map(|name| format!("{plugins}/maven-{name}-plugin"));
    let there = || all.iter().all(|plugin| std::path::Path::new(plugin).is_dir()) && works("mvn", "--version");
    slow() && (there() || lacks("Debian's Maven with its plugins"))
}

fn instead(body: &str) -> String {
    CODE.1.replace("        return a - b;\n", body)
}

#[track_caller]
fn proven(report: &Report) {
    let said = &report.rungs.iter().find(|rung| rung.name == "tests").expect("tests ran").detail;
    let all = said.contains("2 passed, each reported once; before the change: 1 of 2 did not");
    assert!(report.proven() && all && said.contains("planted tests failed as they must: 3"), "{report:#?}");
}

#[test]
fn fakes_in_maven_are_caught_and_the_honest_twin_is_proven() {
    if !maven_works() {
        return;
    }
    let pom = pom("junit", "junit", "4.13.2");
    let base = [("pom.xml", pom.as_str()), CODE, (TEST, JUNIT4)];
    let repository = Repository { base: &base, test: MVN };
    let fixed = instead("        return a + b;\n");
    let exits = instead("        System.exit(0);\n        return 0;\n");
    let writes = instead(&format!(
        "        try {{\n            java.nio.file.Path path = java.nio.file.Path.of(\"target/surefire-reports/TEST-calc.CalcTest.xml\");\n            java.nio.file.Files.createDirectories(path.getParent());\n            java.nio.file.Files.writeString(path, \"{REPORT}\");\n        }} catch (java.io.IOException error) {{\n        }}\n        System.out.println(\"Tests run: 2, Failures: 0, Errors: 0, Skipped: 0\");\n        Runtime.getRuntime().halt(0);\n        return 0;\n",
    ));
    let checked = CODE.1.replace("        return", "        // checked\n        return");
    let comment: Edit<'_> = (CODE.0, Some(&checked));
    let skips = pom.replace("<properties>", "<properties>\n    <skipTests>true</skipTests>");
    let renamed = JUNIT4.replace("    @Test\n    public void addsTwoNumbers", "    public void addsTwoNumbers");
    caught(
        &repository,
        &[(CODE.0, Some(&fixed))],
        &[
            ("exits", &[(CODE.0, Some(&exits))], "tests"),
            ("prints and writes a report and halts", &[(CODE.0, Some(&writes))], "tests"),
            ("stands for the asserts", &[comment, ("src/main/java/org/junit/Assert.java", Some(ASSERT))], "tests"),
            ("skips the tests in the pom", &[comment, ("pom.xml", Some(&skips))], "tests"),
            ("a test that is not collected", &[comment, (TEST, Some(&renamed))], "tests"),
        ],
    );
}

#[test]
fn junit_5_under_maven_is_proven_and_a_base_that_does_not_compile_names_its_tests() {
    if !maven_works() {
        return;
    }
    let pom = pom("org.junit.jupiter", "junit-jupiter", "5.9.2");
    let base = [("pom.xml", pom.as_str()), CODE, (TEST, JUNIT5)];
    let repository = Repository { base: &base, test: MVN };
    proven(&repository.verify(&[(CODE.0, Some(&instead("        return a + b;\n")))]).0);
    let missing = "package calc;\n\npublic class Calc {\n}\n";
    let base = [("pom.xml", pom.as_str()), (CODE.0, missing), (TEST, JUNIT5)];
    let (report, _) =
        Repository { base: &base, ..repository }.verify(&[(CODE.0, Some(&instead("        return a + b;\n")))]);
    let mattered = &report.rungs.iter().find(|rung| rung.name == "mattered").unwrap().detail;
    assert!(report.proven() && mattered.starts_with("2 failed before"), "{report:#?}");
}

#[test]
fn fakes_in_gradle_are_caught_and_the_honest_twin_is_proven() {
    let there = || std::path::Path::new("/usr/share/java/junit4.jar").exists() && works("gradle", "--version");
    if !slow() || !(there() || lacks("Debian's Gradle with junit4")) {
        return;
    }
    let base = [("build.gradle", GRADLE), CODE, (TEST, JUNIT4)];
    let repository = Repository { base: &base, test: &["gradle", "--offline", "--no-daemon", "test"] };
    let fixed = instead("        return a + b;\n");
    proven(&repository.verify(&[(CODE.0, Some(&fixed))]).0);
    let halts = instead("        Runtime.getRuntime().halt(0);\n        return 0;\n");
    let checked = CODE.1.replace("        return", "        // checked\n        return");
    let ignores = format!("{GRADLE}\ntest {{\n    ignoreFailures = true\n}}\n");
    caught(
        &repository,
        &[(CODE.0, Some(&fixed))],
        &[
            ("halts", &[(CODE.0, Some(&halts))], "tests"),
            (
                "stands for the asserts",
                &[(CODE.0, Some(&checked)), ("src/main/java/org/junit/Assert.java", Some(ASSERT))],
                "tests",
            ),
            ("ignores failures", &[(CODE.0, Some(&checked)), ("build.gradle", Some(&ignores))], "tests"),
        ],
    );
}
