//! From addresses to functions, files and lines.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use blazesym::MaybeDefault;
use blazesym::symbolize::source::{Elf, Kernel as KernelSource, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use cachewise_model::{Frame, Reason};

use crate::address::Address;
use crate::module::Modules;
use crate::perf_map::PerfMap;

/// The calls at each address: more than one where functions are inlined, the innermost first.
pub(crate) type Names = HashMap<Address, Vec<Frame>>;

/// Looks up all of these addresses; `perf_map` has that of a process.
pub(crate) fn look_up(
    addresses: &BTreeSet<Address>,
    modules: &Modules,
    perf_map: impl Fn(u32) -> Option<PerfMap>,
) -> Names {
    let mut in_files: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut bare: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut in_kernel = Vec::new();
    for address in addresses {
        match *address {
            Address::InFile(number, at) => in_files.entry(number).or_default().push(at),
            Address::Bare(pid, at) => bare.entry(pid).or_default().push(at),
            Address::Kernel(at) => in_kernel.push(at),
        }
    }
    let symbolizer = Symbolizer::new();
    let mut names = Names::new();
    for (number, addresses) in in_files {
        let module = modules.get(number);
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
        names.extend(frames.map(|(at, frames)| (Address::InFile(number, at), frames)));
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
        names.extend(frames.map(|(at, frames)| (Address::Kernel(at), frames)));
    }
    for (pid, addresses) in bare {
        let map = perf_map(pid).unwrap_or_default();
        for at in addresses {
            let function = map.find(at).map(str::to_owned);
            let frame = Frame {
                unknown: function.is_none().then_some(Reason::NotInFile),
                function,
                ..Frame::default()
            };
            names.insert(Address::Bare(pid, at), vec![frame]);
        }
    }
    names
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
