//! The page's modules as one script, which a file can hold: a browser loads no module from a file.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::http::module;

/// The module `name` and all that it imports, each as a function that returns its exports, imported ones first.
pub(super) fn bundle(name: &str) -> String {
    let mut script = String::from("\"use strict\";\nconst modules = {};\n");
    add(name, &mut BTreeSet::new(), &mut script);
    script
}

fn add(name: &str, done: &mut BTreeSet<String>, script: &mut String) {
    let Some(source) = module(name).filter(|_| done.insert(name.to_owned())) else {
        return;
    };
    let (mut body, mut exports) = (String::new(), Vec::new());
    for line in source.lines() {
        if let Some((names, from)) = imported(line) {
            add(from, done, script);
            let _ = writeln!(body, "const {names} = modules[\"{from}\"];");
        } else if let Some(rest) = line.strip_prefix("export ") {
            exports.extend(declared(rest));
            let _ = writeln!(body, "{rest}");
        } else {
            let _ = writeln!(body, "{line}");
        }
    }
    let exports = exports.join(", ");
    let _ = write!(
        script,
        "modules[\"{name}\"] = (() => {{\n{body}return {{ {exports} }};\n}})();\n"
    );
}

/// The names and the module of `import { a, b } from "./module.js";`.
fn imported(line: &str) -> Option<(&str, &str)> {
    let (names, from) = line.strip_prefix("import ")?.split_once(" from \"./")?;
    Some((names, from.strip_suffix("\";")?))
}

/// The name that a declaration declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let (_, rest) = line.split_once(' ')?;
    rest.split(|character: char| !(character.is_alphanumeric() || character == '_'))
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_modules_of_the_page_are_in_the_script_and_none_is_imported() {
        let script = bundle("app.js");
        for name in ["app.js", "live.js", "source.js", "subject.js", "treemap.js"] {
            let count = script.matches(&format!("modules[\"{name}\"] = ")).count();
            assert_eq!(count, 1, "{name} is there once");
        }
        for line in script.lines() {
            assert!(
                !line.starts_with("import ") && !line.starts_with("export "),
                "{line}"
            );
        }
        assert!(script.contains("return { READS, SERIES };"), "exports");
        assert!(!script.contains("</script"), "nothing ends the element");
    }
}
