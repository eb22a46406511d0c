//! What is bis's own ([`Ours`]), both ways.

use std::sync::Arc;

use super::{Malformed, Result, encode::count, require};
use crate::{
    bis_capnp::{self as schema, ours, patch_set},
    event::Insn,
    ours::{
        Area, AreaKind, DenseText, Diverted, Fault, Guard, Ours, Patch, PatchSet, PatchedText, Pool,
        RUN_BYTES_MAX,
    },
    types::{Addr, FileId},
};

/// The longest instruction, bytes.
const INSN_BYTES_MAX: usize = 15;

fn check_patch(patch: &Patch) -> Result<()> {
    let len = patch.original.len();
    require((1..=RUN_BYTES_MAX).contains(&len), || format!("a patched run of {len} bytes"))?;
    require(usize::from(patch.site) < len, || format!("a patch's site at its byte {} of {len}", patch.site))?;
    let is_within = |[from, to]: &[u8; 2]| usize::from(*from) <= len && *to < patch.trampoline_len;
    require(patch.moved.iter().all(is_within), || "an instruction was moved out of its trampoline".into())?;
    let aborts = patch.insn == Some(Insn::Xbegin);
    require(patch.abort.is_some() == aborts, || "only xbegin goes on elsewhere".into())
}

fn check_fault(original: &[u8]) -> Result<()> {
    require((1..=INSN_BYTES_MAX).contains(&original.len()), || {
        format!("an instruction of {} bytes", original.len())
    })
}

fn check_diverted(original: &[u8]) -> Result<()> {
    require(!original.is_empty(), || "no bytes were diverted".into())
}

pub(super) fn insn_to(insn: Insn) -> schema::instruction::Insn {
    match insn {
        Insn::Rdtsc => schema::instruction::Insn::Rdtsc,
        Insn::Rdtscp => schema::instruction::Insn::Rdtscp,
        Insn::Cpuid => schema::instruction::Insn::Cpuid,
        Insn::Rdrand => schema::instruction::Insn::Rdrand,
        Insn::Rdseed => schema::instruction::Insn::Rdseed,
        Insn::Rdpid => schema::instruction::Insn::Rdpid,
        Insn::Xbegin => schema::instruction::Insn::Xbegin,
        Insn::Xsavec => schema::instruction::Insn::Xsavec,
        Insn::Lsl => schema::instruction::Insn::Lsl,
        Insn::Fnstenv => schema::instruction::Insn::Fnstenv,
    }
}

pub(super) fn insn_from(insn: schema::instruction::Insn) -> Insn {
    match insn {
        schema::instruction::Insn::Rdtsc => Insn::Rdtsc,
        schema::instruction::Insn::Rdtscp => Insn::Rdtscp,
        schema::instruction::Insn::Cpuid => Insn::Cpuid,
        schema::instruction::Insn::Rdrand => Insn::Rdrand,
        schema::instruction::Insn::Rdseed => Insn::Rdseed,
        schema::instruction::Insn::Rdpid => Insn::Rdpid,
        schema::instruction::Insn::Xbegin => Insn::Xbegin,
        schema::instruction::Insn::Xsavec => Insn::Xsavec,
        schema::instruction::Insn::Lsl => Insn::Lsl,
        schema::instruction::Insn::Fnstenv => Insn::Fnstenv,
    }
}

fn site_to(insn: Option<Insn>) -> ours::Site {
    match insn {
        None => ours::Site::Syscall,
        Some(Insn::Rdtsc) => ours::Site::Rdtsc,
        Some(Insn::Rdtscp) => ours::Site::Rdtscp,
        Some(Insn::Cpuid) => ours::Site::Cpuid,
        Some(Insn::Rdrand) => ours::Site::Rdrand,
        Some(Insn::Rdseed) => ours::Site::Rdseed,
        Some(Insn::Rdpid) => ours::Site::Rdpid,
        Some(Insn::Xbegin) => ours::Site::Xbegin,
        Some(Insn::Xsavec) => ours::Site::Xsavec,
        Some(Insn::Lsl) => ours::Site::Lsl,
        Some(Insn::Fnstenv) => ours::Site::Fnstenv,
    }
}

fn site_from(site: ours::Site) -> Option<Insn> {
    match site {
        ours::Site::Syscall => None,
        ours::Site::Rdtsc => Some(Insn::Rdtsc),
        ours::Site::Rdtscp => Some(Insn::Rdtscp),
        ours::Site::Cpuid => Some(Insn::Cpuid),
        ours::Site::Rdrand => Some(Insn::Rdrand),
        ours::Site::Rdseed => Some(Insn::Rdseed),
        ours::Site::Rdpid => Some(Insn::Rdpid),
        ours::Site::Xbegin => Some(Insn::Xbegin),
        ours::Site::Xsavec => Some(Insn::Xsavec),
        ours::Site::Lsl => Some(Insn::Lsl),
        ours::Site::Fnstenv => Some(Insn::Fnstenv),
    }
}

/// Empty lists are left out: they take eight bytes each, as null.
pub(super) fn encode(from: &Ours, mut to: ours::Builder<'_>) -> Result<()> {
    if !from.own.is_empty() {
        let mut list = to.reborrow().init_own(count(from.own.len())?);
        for (index, (addr, len)) in (0..).zip(&from.own) {
            let mut item = list.reborrow().get(index);
            item.set_addr(addr.0);
            item.set_len(*len);
        }
    }
    if !from.areas.is_empty() {
        let mut list = to.reborrow().init_areas(count(from.areas.len())?);
        for (index, area) in (0..).zip(&from.areas) {
            let mut item = list.reborrow().get(index);
            item.set_addr(area.addr.0);
            item.set_len(area.len);
            item.set_kind(match area.kind {
                AreaKind::Agent => ours::area::Kind::Agent,
                AreaKind::Hooks => ours::area::Kind::Hooks,
                AreaKind::HookState => ours::area::Kind::HookState,
                AreaKind::Arena => ours::area::Kind::Arena,
            });
        }
    }
    if !from.diverted.is_empty() {
        let mut list = to.reborrow().init_diverted(count(from.diverted.len())?);
        for (index, part) in (0..).zip(&from.diverted) {
            check_diverted(&part.original)?;
            let mut item = list.reborrow().get(index);
            item.set_addr(part.addr.0);
            item.set_original(&part.original);
            item.set_is_function(part.is_function);
        }
    }
    if !from.pools.is_empty() {
        let mut list = to.reborrow().init_pools(count(from.pools.len())?);
        for (index, pool) in (0..).zip(&from.pools) {
            let mut item = list.reborrow().get(index);
            item.set_addr(pool.addr.0);
            item.set_len(pool.len);
            item.set_bias(pool.bias);
            item.set_map(pool.map.0);
        }
    }
    if !from.dense.is_empty() {
        let mut list = to.reborrow().init_dense(count(from.dense.len())?);
        for (index, text) in (0..).zip(&from.dense) {
            let mut item = list.reborrow().get(index);
            item.set_addr(text.addr.0);
            item.set_len(text.len);
            item.set_pool(text.pool.0);
            item.set_file(text.file.0);
            item.set_offset(text.offset);
        }
    }
    if !from.patches.is_empty() {
        let mut list = to.reborrow().init_patches(count(from.patches.len())?);
        for (index, patch) in (0..).zip(&from.patches) {
            encode_patch(patch, list.reborrow().get(index))?;
        }
    }
    if !from.faults.is_empty() {
        encode_faults(&from.faults, to.reborrow().init_faults(count(from.faults.len())?))?;
    }
    if !from.patched.is_empty() {
        let mut list = to.reborrow().init_patched(count(from.patched.len())?);
        for (index, text) in (0..).zip(&from.patched) {
            let mut item = list.reborrow().get(index);
            item.set_addr(text.addr.0);
            item.set_len(text.len);
            item.set_file(text.file.0);
            item.set_offset(text.offset);
            item.set_set(text.set.0);
            item.set_at(text.at);
        }
    }
    if !from.guards.is_empty() {
        let mut list = to.init_guards(count(from.guards.len())?);
        for (index, guard) in (0..).zip(&from.guards) {
            let mut item = list.reborrow().get(index);
            item.set_page(guard.page.0);
            item.set_prot(guard.prot);
        }
    }
    Ok(())
}

fn encode_faults(
    faults: &[Fault],
    mut list: capnp::struct_list::Builder<'_, ours::fault::Owned>,
) -> Result<()> {
    for (index, fault) in (0..).zip(faults) {
        check_fault(&fault.original)?;
        let mut item = list.reborrow().get(index);
        item.set_site(fault.site.0);
        item.set_insn(insn_to(fault.insn));
        item.set_original(&fault.original);
    }
    Ok(())
}

pub(super) fn encode_set(from: &PatchSet, mut to: patch_set::Builder<'_>) -> Result<()> {
    let mut list = to.reborrow().init_patches(count(from.patches.len())?);
    for (index, patch) in (0..).zip(&from.patches) {
        encode_patch(patch, list.reborrow().get(index))?;
    }
    encode_faults(&from.faults, to.init_faults(count(from.faults.len())?))
}

pub(super) fn decode_set(from: patch_set::Reader<'_>) -> Result<PatchSet> {
    Ok(PatchSet {
        patches: from.get_patches()?.iter().map(decode_patch).collect::<Result<_>>()?,
        faults: from.get_faults()?.iter().map(fault).collect::<Result<_>>()?,
    })
}

fn encode_patch(patch: &Patch, mut to: ours::patch::Builder<'_>) -> Result<()> {
    check_patch(patch)?;
    to.set_start(patch.start.0);
    to.set_trampoline(patch.trampoline.0);
    if let Some(abort) = patch.abort {
        let distance = i32::try_from(abort.wrapping_since(patch.end()).cast_signed());
        to.set_abort(distance.map_err(|_| Malformed("xbegin leads too far".into()))?);
    }
    to.set_site(site_to(patch.insn));
    to.set_trampoline_len(patch.trampoline_len);
    to.set_site_at(patch.site);
    to.set_original(&patch.original);
    to.set_moved(patch.moved.as_flattened());
    Ok(())
}

pub(super) fn decode(from: ours::Reader<'_>) -> Result<Ours> {
    Ok(Ours {
        own: from.get_own()?.iter().map(|range| (Addr(range.get_addr()), range.get_len())).collect(),
        areas: from.get_areas()?.iter().map(area).collect::<Result<_>>()?,
        diverted: from.get_diverted()?.iter().map(diverted).collect::<Result<_>>()?,
        pools: from.get_pools()?.iter().map(pool).collect(),
        dense: from.get_dense()?.iter().map(dense).collect(),
        patched: from.get_patched()?.iter().map(patched).collect(),
        patches: from.get_patches()?.iter().map(decode_patch).collect::<Result<_>>()?,
        faults: from.get_faults()?.iter().map(fault).collect::<Result<_>>()?,
        guards: from.get_guards()?.iter().map(guard).collect(),
    })
}

fn area(from: ours::area::Reader<'_>) -> Result<Area> {
    let kind = match from.get_kind()? {
        ours::area::Kind::Agent => AreaKind::Agent,
        ours::area::Kind::Hooks => AreaKind::Hooks,
        ours::area::Kind::HookState => AreaKind::HookState,
        ours::area::Kind::Arena => AreaKind::Arena,
    };
    Ok(Area { addr: Addr(from.get_addr()), len: from.get_len(), kind })
}

fn diverted(from: ours::diverted::Reader<'_>) -> Result<Diverted> {
    let original = from.get_original()?.to_vec();
    check_diverted(&original)?;
    Ok(Diverted { addr: Addr(from.get_addr()), original, is_function: from.get_is_function() })
}

fn pool(from: ours::pool::Reader<'_>) -> Pool {
    let (addr, len, bias) = (Addr(from.get_addr()), from.get_len(), from.get_bias());
    Pool { addr, len, bias, map: FileId(from.get_map()) }
}

fn dense(from: ours::dense_text::Reader<'_>) -> DenseText {
    let (addr, len, pool) = (Addr(from.get_addr()), from.get_len(), Addr(from.get_pool()));
    DenseText { addr, len, pool, file: FileId(from.get_file()), offset: from.get_offset() }
}

fn patched(from: ours::patched_text::Reader<'_>) -> PatchedText {
    let (addr, len, offset) = (Addr(from.get_addr()), from.get_len(), from.get_offset());
    let (file, set) = (FileId(from.get_file()), FileId(from.get_set()));
    PatchedText { addr, len, file, offset, set, at: from.get_at() }
}

fn decode_patch(from: ours::patch::Reader<'_>) -> Result<Arc<Patch>> {
    let insn = site_from(from.get_site()?);
    let (moved, rest) = from.get_moved()?.as_chunks();
    require(rest.is_empty(), || "half a pair of places in a patch".into())?;
    let mut patch = Patch {
        start: Addr(from.get_start()),
        original: from.get_original()?.to_vec(),
        trampoline: Addr(from.get_trampoline()),
        trampoline_len: from.get_trampoline_len(),
        site: from.get_site_at(),
        insn,
        moved: moved.to_vec(),
        abort: None,
    };
    if insn == Some(Insn::Xbegin) {
        patch.abort = Some(patch.end().wrapping_add(i64::from(from.get_abort()).cast_unsigned()));
    }
    check_patch(&patch)?;
    Ok(Arc::new(patch))
}

fn fault(from: ours::fault::Reader<'_>) -> Result<Fault> {
    let original = from.get_original()?.to_vec();
    check_fault(&original)?;
    Ok(Fault { site: Addr(from.get_site()), insn: insn_from(from.get_insn()?), original })
}

fn guard(from: ours::guard::Reader<'_>) -> Guard {
    Guard { page: Addr(from.get_page()), prot: from.get_prot() }
}
