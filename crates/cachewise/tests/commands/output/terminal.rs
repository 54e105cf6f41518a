//! Widths and colours.

use crate::support::*;

/// Lines that a terminal of this width shows, without notes, which are sentences.
fn lines_on(columns: usize, arguments: &str) -> Option<Vec<String>> {
    if !has_terminals("width of a terminal") {
        return None;
    }
    let binary = env!("CARGO_BIN_EXE_cachewise");
    let line = format!("stty cols {columns}; exec '{binary}' {arguments}");
    let shown = Ended::of(&mut on_terminal(&line))
        .expect(0, "it succeeds on a terminal")
        .out();
    let lines = shown.lines().map(|line| line.trim_end().to_owned());
    Some(
        lines
            .filter(|line| !line.starts_with("cachewise: note: "))
            .collect(),
    )
}

/// Columns that notes of a table say it has no room for, as often as they say it.
fn left_out(lines: &[String]) -> Vec<String> {
    let all = lines.iter().map(|line| line.trim()).collect::<Vec<_>>();
    let all = all.join(" ");
    let notes = all.split("no room for ").skip(1);
    let lists = notes.filter_map(|note| note.split(": --columns").next());
    lists
        .flat_map(|names| names.split(", ").map(str::to_owned))
        .collect()
}

pub fn width_of_a_terminal() {
    let headers = cachewise_model::STAT_COLUMNS
        .map(|name| cachewise_model::field(name).expect("a field").header);
    for columns in [40, 60, 80, 120] {
        let Some(lines) = lines_on(columns, "stat 0.01 3") else {
            return;
        };
        for line in &lines {
            assert!(
                line.chars().count() <= columns,
                "stat: no row is wrapped at {columns} columns: {line:?}"
            );
        }
        let all = lines.join("\n");
        // Other programs may make a number wide, which then displaces one more column.
        let left_out = left_out(&lines);
        for name in headers {
            let is_shown = all.lines().any(|line| {
                let is_header = line.split_whitespace().any(|word| word == "MISSED");
                is_header && line.split_whitespace().any(|word| word == name)
            });
            let said = left_out.iter().filter(|left| *left == name).count();
            assert!(
                said <= 1 && (is_shown || said == 1),
                "stat: {name} is shown, or said once to be left out, at {columns} columns: {all}"
            );
        }
        assert!(
            all.contains("MISSED") && all.contains("REUSE%"),
            "stat: what it is about stays: {all}"
        );

        let lines = lines_on(columns, "run -- true").expect("it was there before");
        // Lines that users copy are not wrapped.
        let is_copied = |line: &str| {
            ["    fix: ", "    verify: ", "    evidence: "]
                .iter()
                .any(|start| line.starts_with(start))
        };
        for line in lines.iter().filter(|line| !is_copied(line)) {
            assert!(
                line.chars().count() <= columns,
                "run: no line of a table is wrapped at {columns} columns: {line:?}"
            );
        }
    }
    let asked = "stat --columns time,total,misses,hits,cached,buffers,dirty 0.01 1";
    let lines = lines_on(40, asked).expect("it was there before");
    assert!(
        lines[0].ends_with("DIRTY"),
        "what is asked for by name is shown, whatever the width: {lines:?}"
    );
    // A terminal of unknown width.
    let wide = lines_on(0, "stat 0.01 1").expect("it was there before");
    assert!(
        wide[1].ends_with("DIRTIES"),
        "80 columns where the terminal knows none: {wide:?}"
    );
    let line = format!(
        "stty cols 60; COLUMNS=120 exec '{}' stat 0.01 1",
        env!("CARGO_BIN_EXE_cachewise")
    );
    let ended = Ended::of(&mut on_terminal(&line));
    assert!(
        ended.out().contains("PAGE-CACHE") && !ended.out().contains("no room"),
        "COLUMNS comes first: {}",
        ended.out()
    );
}

pub fn first_steps() {
    if !has_terminals("first steps") {
        return;
    }
    let line = format!("exec '{}'", env!("CARGO_BIN_EXE_cachewise"));
    let shown = Ended::of(&mut on_terminal(&line))
        .expect(0, "a person asks")
        .out();
    for part in ["cachewise run -- COMMAND", "Now: ", "cachewise --help"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(shown.lines().count() <= 12, "few lines: {shown}");
    let ended = Ended::of(&mut cachewise([] as [&str; 0]));
    ended.expect(2, "a script has forgotten the command");
}

pub fn width_of_a_pipe() {
    let mut command = cachewise(["stat", "0.01", "1"]);
    let ended = Ended::of(command.env("COLUMNS", "40")).expect(0, "a row");
    let header = ended.out().lines().next().map(str::to_owned);
    let header = header.unwrap_or_default();
    let words: Vec<&str> = header.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "TIME REQUESTED MISSED HITS REUSE% AHEAD DIRECT DIRTIES EVICTED BUFFERS PAGE-CACHE",
        "what is no terminal gets everything"
    );
}

pub fn colour_asked_for() {
    for (when, coloured) in [("always", true), ("never", false), ("auto", false)] {
        let ended = Ended::of(&mut cachewise(["run", "--color", when, "--", "true"]));
        assert_eq!(
            ended.err().contains('\x1b'),
            coloured,
            "--color {when} into a pipe: {:?}",
            ended.err()
        );
        ended.expect(0, "true succeeds");
    }
    let mut command = cachewise(["run", "--color", "always", "--", "true"]);
    let ended = Ended::of(command.env("NO_COLOR", "1")).expect(0, "true succeeds");
    assert!(
        ended.err().contains('\x1b'),
        "what is asked for on the command line comes first"
    );
    for format in ["json", "csv", "openmetrics"] {
        let ended = Ended::of(&mut cachewise([
            "stat", "0.01", "1", "--color", "always", "-o", format,
        ]));
        assert!(
            !ended.out().contains('\x1b'),
            "no colour in {format}, whatever is asked for"
        );
    }
    Ended::of(&mut cachewise([
        "run",
        "--color",
        "sometimes",
        "--",
        "true",
    ]))
    .expect(2, "there is no such time")
    .says("sometimes", "the message names it");
}

pub fn colour_on_a_terminal() {
    // `script` gives its command a terminal, and copies what it shows.
    let shown = |variables: &[(&str, &str)], arguments: &str| {
        let line = format!("'{}' {arguments}", env!("CARGO_BIN_EXE_cachewise"));
        let mut command = on_terminal(&line);
        command.env_remove("NO_COLOR");
        let ended = Ended::of(command.envs(variables.iter().copied()));
        let ended = ended.expect(0, "it succeeds on a terminal");
        // The terminal's own line ends.
        ended.out().replace("\r\n", "\n")
    };
    if !has_terminals("colour on a terminal") {
        return;
    }
    for line in ["run -- true", "stat 0.01 2"] {
        assert!(
            !shown(&[("NO_COLOR", "1")], line).contains('\x1b'),
            "{line}: NO_COLOR is heeded"
        );
    }
    for line in ["run --color never -- true", "stat --color never 0.01 2"] {
        assert!(
            !shown(&[], line).contains('\x1b'),
            "{line}: no colour, as it says"
        );
    }
    assert!(
        shown(&[], "run -- true").contains('\x1b'),
        "a person's terminal gets colours"
    );
    assert!(
        shown(&[("NO_COLOR", "")], "run -- true").contains('\x1b'),
        "an empty NO_COLOR is none (no-color.org)"
    );
}
