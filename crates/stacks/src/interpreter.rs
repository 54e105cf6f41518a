//! Interpreters and virtual machines: their own functions belong to the language, and those of scripts have names only in a
//! perf map.

use std::path::{Path, PathBuf};

use cachewise_model::{Frame, Reason};

/// The beginnings of the names of functions that run a script's function: of CPython, Node.js and HotSpot's perf map.
const RUN: [&str; 3] = [
    "_PyEval_EvalFrame",
    "Builtins_InterpreterEntryTrampoline",
    "Interpreter",
];

/// The beginning of names in the binary of Node.js that a stack with functions of JavaScript has.
const NODE: &str = "Builtins_";

/// Packages of Java's own library.
const JAVA: [&str; 4] = ["java.", "javax.", "jdk.", "sun."];

/// Marks the calls of an interpreter, and of the language's own library, as those of a library. The innermost one that runs a
/// script stands for the script's function where no perf map names it.
pub(crate) fn mark(frames: &mut [Frame]) {
    mark_node(frames);
    mark_java(frames);
    let Some(innermost) = frames.iter().position(runs_script) else {
        return;
    };
    let modules: Vec<PathBuf> = frames
        .iter()
        .filter(|frame| runs_script(frame))
        .filter_map(|frame| frame.module.clone())
        .collect();
    let has_names = frames
        .iter()
        .any(|frame| frame.is_in_no_file() && frame.function.is_some() && !runs_script(frame));
    for frame in frames.iter_mut() {
        let is_interpreters = frame
            .module
            .as_ref()
            .is_some_and(|module| modules.contains(module));
        frame.is_library |= is_interpreters || runs_script(frame);
    }
    if !has_names {
        let frame = &mut frames[innermost];
        frame.is_library = false;
        // A line of the interpreter says nothing of the script.
        (frame.file, frame.line) = (None, None);
        frame.unknown = Some(Reason::Interpreter);
    }
}

fn mark_node(frames: &mut [Frame]) {
    let name = |frame: &Frame| frame.function.clone().unwrap_or_default();
    let node = frames.iter().find(|frame| name(frame).starts_with(NODE));
    let Some(node) = node.and_then(|frame| frame.module.clone()) else {
        return;
    };
    for frame in frames.iter_mut() {
        let is_own_script = frame.is_in_no_file() && name(frame).contains(" node:");
        frame.is_library |= frame.module.as_ref() == Some(&node) || is_own_script;
    }
}

fn mark_java(frames: &mut [Frame]) {
    let machine = |frame: &Frame| {
        let module = frame.module.as_deref()?;
        module.ends_with("server/libjvm.so").then_some(())?;
        module.parent()?.parent().map(Path::to_owned)
    };
    let Some(libraries) = frames.iter().find_map(machine) else {
        return;
    };
    for frame in frames.iter_mut() {
        frame.is_library |= match (&frame.module, &frame.function) {
            (Some(module), _) => module.starts_with(&libraries),
            (None, Some(name)) => !frame.is_kernel && is_javas_own(name),
            (None, None) => false,
        };
    }
}

/// Whether the name in a perf map, as in `int java.io.File.read(byte[], int)`, is of Java's library, or of no method.
fn is_javas_own(name: &str) -> bool {
    let method = name.split_once('(').map(|(head, _)| head);
    let method = method.and_then(|head| head.rsplit(' ').next());
    method.is_none_or(|method| {
        !method.contains('.') || JAVA.iter().any(|package| method.starts_with(package))
    })
}

fn runs_script(frame: &Frame) -> bool {
    let name = frame.function.as_deref().unwrap_or_default();
    !frame.is_kernel && RUN.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, module: Option<&str>) -> Frame {
        Frame {
            function: Some(function.to_owned()),
            module: module.map(PathBuf::from),
            ..Frame::default()
        }
    }

    fn marked(mut frames: Vec<Frame>) -> Vec<(bool, Option<Reason>)> {
        mark(&mut frames);
        let marks = frames.iter().map(|frame| (frame.is_library, frame.unknown));
        marks.collect()
    }

    #[test]
    fn mark_finds_the_libraries_of_node_and_java() {
        let (library, own) = ((true, None), (false, None));
        let node = Some("/usr/bin/node");
        let script = vec![
            frame("uv__fs_read", node),
            frame("JS:~readSync node:fs:708:18", None),
            frame("JS:^loadIndex /srv/reads.js:2:19", None),
            frame("Builtins_JSEntry", node),
        ];
        assert_eq!(marked(script), [library, library, own, library]);
        let java = vec![
            frame("readBytes", Some("/usr/lib/jvm/17/lib/libjava.so")),
            frame(
                "int java.io.RandomAccessFile.readBytes(byte[], int, int)",
                None,
            ),
            frame(
                "int Reads.loadIndex(java.io.RandomAccessFile, byte[], long)",
                None,
            ),
            frame("StubRoutines (1)", None),
            frame(
                "JavaCalls::call",
                Some("/usr/lib/jvm/17/lib/server/libjvm.so"),
            ),
        ];
        assert_eq!(marked(java), [library, library, own, library, library]);
    }

    #[test]
    fn mark_leaves_the_functions_of_scripts_that_have_names() {
        let python = Some("/usr/lib/libpython3.12.so.1.0");
        let library = (true, None);
        let own = (false, None);
        let run = "_PyEval_EvalFrameDefault";
        let named = vec![
            frame("_Py_read", python),
            frame(run, python),
            frame("load", None),
            frame(run, python),
            frame("extend", Some("/srv/extension.so")),
        ];
        assert_eq!(marked(named), [library, library, own, library, own]);
        let unnamed = vec![
            frame("_Py_read", python),
            frame(run, python),
            frame("vectorcall", python),
            frame(run, python),
        ];
        let interpreter = (false, Some(Reason::Interpreter));
        assert_eq!(
            marked(unnamed),
            [library, interpreter, library, library],
            "the innermost one stands for the script's function"
        );
        let program = vec![frame("load", Some("/bin/p"))];
        assert_eq!(marked(program), [own], "no interpreter");
    }
}
