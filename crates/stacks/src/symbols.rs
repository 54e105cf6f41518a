//! From addresses to functions, files and lines.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel as KernelSource, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use cachewise_kstat::Kernel;
use cachewise_model::{Frame, Reason};

use crate::address::Address;
use crate::module::Module;
use crate::perf_map::PerfMap;

/// Functions of perf maps that are kept from one interval to the next.
const MAX_FUNCTIONS: usize = 500_000;

/// The calls at each address: more than one where functions are inlined, the innermost first.
#[derive(Default)]
pub(crate) struct Symbols {
    names: HashMap<Address, Vec<Frame>>,
    /// By process.
    perf_maps: HashMap<u32, PerfMap>,
}

impl Symbols {
    pub(crate) fn frames(&self, address: &Address) -> Option<&Vec<Frame>> {
        self.names.get(address)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Looks up those of these addresses that are new; `user` has that of a process.
    pub(crate) fn look_up(
        &mut self,
        addresses: &BTreeSet<Address>,
        modules: &HashMap<u32, Arc<Module>>,
        kernel: &Kernel,
        user: impl Fn(u32) -> Option<u32>,
    ) {
        let mut in_files: HashMap<u32, Vec<u64>> = HashMap::new();
        let mut bare: HashMap<u32, Vec<u64>> = HashMap::new();
        let mut in_kernel = Vec::new();
        for address in addresses {
            match *address {
                // A JIT compiler may have made other code there meanwhile.
                Address::Bare(pid, at) => bare.entry(pid).or_default().push(at),
                _ if self.names.contains_key(address) => {}
                Address::Unopened(number) => {
                    let frame = Frame {
                        module: modules.get(&number).map(|module| module.path.clone()),
                        unknown: Some(Reason::FileNotOpened),
                        ..Frame::default()
                    };
                    self.names.insert(*address, vec![frame]);
                }
                Address::InFile(number, at) => in_files.entry(number).or_default().push(at),
                Address::Kernel(at) => in_kernel.push(at),
            }
        }
        if !in_files.is_empty() || !in_kernel.is_empty() {
            self.name_files(in_files, in_kernel, modules);
        }
        for (pid, addresses) in bare {
            let Some(user) = user(pid) else {
                let frames = addresses.iter().map(|at| (*at, unnamed()));
                self.enter_bare(pid, frames.collect());
                continue;
            };
            let map = self.perf_maps.entry(pid).or_default();
            map.refresh(kernel, pid, user);
            let frames = addresses.iter().map(|at| {
                let frame = map.find(*at).map_or_else(unnamed, jit_frame);
                (*at, frame)
            });
            let frames = frames.collect();
            self.enter_bare(pid, frames);
        }
        let functions: usize = self.perf_maps.values().map(PerfMap::len).sum();
        if functions > MAX_FUNCTIONS {
            self.perf_maps.clear();
        }
    }

    fn enter_bare(&mut self, pid: u32, frames: Vec<(u64, Frame)>) {
        let named = frames.into_iter();
        self.names
            .extend(named.map(|(at, frame)| (Address::Bare(pid, at), vec![frame])));
    }

    fn name_files(
        &mut self,
        in_files: HashMap<u32, Vec<u64>>,
        in_kernel: Vec<u64>,
        modules: &HashMap<u32, Arc<Module>>,
    ) {
        // Dropped at the end: it maps the files.
        let symbolizer = Symbolizer::new();
        for (number, addresses) in in_files {
            let module = modules.get(&number);
            let file = module.and_then(|module| module.file.as_ref());
            // The open file: its path may lead elsewhere by now, or nowhere.
            let link = file.map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
            let found = link.and_then(|link| {
                let source = Source::Elf(Elf::new(link));
                let found = symbolizer.symbolize(&source, Input::VirtOffset(&addresses));
                found.ok()
            });
            let path = module.map(|module| module.path.clone());
            let frames = frames_of(&addresses, found, path.as_ref(), false);
            let named = frames.map(|(at, frames)| (Address::InFile(number, at), frames));
            self.names.extend(named);
        }
        if !in_kernel.is_empty() {
            let source = Source::Kernel(KernelSource {
                vmlinux: MaybeDefault::None,
                debug_syms: false,
                ..KernelSource::default()
            });
            let found = symbolizer
                .symbolize(&source, Input::AbsAddr(&in_kernel))
                .ok();
            let frames = frames_of(&in_kernel, found, None, true);
            let named = frames.map(|(at, frames)| (Address::Kernel(at), frames));
            self.names.extend(named);
        }
    }
}

/// A call in code that no perf map names.
fn unnamed() -> Frame {
    Frame {
        unknown: Some(Reason::NotInFile),
        ..Frame::default()
    }
}

/// A call of a perf map's function. CPython writes `py::FUNCTION:FILE`.
fn jit_frame(name: &str) -> Frame {
    let python = name.strip_prefix("py::");
    let (function, file) = match python.and_then(|name| name.split_once(':')) {
        Some((function, file)) => (function, Some(PathBuf::from(file))),
        None => (name, None),
    };
    Frame {
        function: Some(function.to_owned()),
        file,
        ..Frame::default()
    }
}

fn frames_of<'a>(
    addresses: &'a [u64],
    found: Option<Vec<Symbolized<'a>>>,
    module: Option<&'a PathBuf>,
    is_kernel: bool,
) -> impl Iterator<Item = (u64, Vec<Frame>)> + 'a {
    let mut found = found.map(Vec::into_iter);
    addresses.iter().map(move |address| {
        let symbolized = found.as_mut().and_then(Iterator::next);
        let mut frames = match symbolized.as_ref().and_then(Symbolized::as_sym) {
            Some(symbol) => calls(symbol),
            None => vec![Frame {
                unknown: Some(Reason::NoSymbol),
                ..Frame::default()
            }],
        };
        for frame in &mut frames {
            frame.module = module.cloned();
            frame.is_kernel = is_kernel;
            if is_kernel {
                frame.unknown = frame.unknown.filter(|_| frame.function.is_none());
            }
        }
        (*address, frames)
    })
}

/// The calls of a symbol: the functions inlined into it before itself.
fn calls(symbol: &Sym<'_>) -> Vec<Frame> {
    let frame = |name: &str, code: Option<&blazesym::symbolize::CodeInfo<'_>>, is_inlined| {
        let line = code.and_then(|code| code.line);
        Frame {
            function: Some(name.to_owned()),
            file: code.map(|code| code.to_path().into_owned()),
            line,
            is_inlined,
            unknown: line.is_none().then_some(Reason::NoDebugInformation),
            ..Frame::default()
        }
    };
    let inlined = symbol.inlined.iter().rev();
    inlined
        .map(|inlined| frame(&inlined.name, inlined.code_info.as_ref(), true))
        .chain([frame(&symbol.name, symbol.code_info.as_deref(), false)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jit_frame_has_function_and_file_of_a_python_script() {
        let frame = jit_frame("py::Index.load:/srv/app/index.py");
        assert_eq!(frame.function.as_deref(), Some("Index.load"));
        assert_eq!(frame.file, Some("/srv/app/index.py".into()));
        let frame = jit_frame("LazyCompile:*load /srv/a.js:3");
        assert_eq!(
            frame.function.as_deref(),
            Some("LazyCompile:*load /srv/a.js:3"),
            "as it is"
        );
    }
}
