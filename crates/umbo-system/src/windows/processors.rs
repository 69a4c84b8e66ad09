//! Processors, which Windows numbers in groups of up to 64. Processor `n` of group `g` has the
//! number `64 * g + n`.

use std::{io, ptr};

use windows_sys::Win32::Foundation::{ERROR_SUCCESS, FALSE};
use windows_sys::Win32::System::Kernel::PROCESSOR_NUMBER;
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};
use windows_sys::Win32::System::SystemInformation::{
    CACHE_RELATIONSHIP, CacheInstruction, GROUP_AFFINITY, GetLogicalProcessorInformationEx,
    LOGICAL_PROCESSOR_RELATIONSHIP, NUMA_NODE_RELATIONSHIP, PROCESSOR_RELATIONSHIP, RelationCache,
    RelationNumaNode, RelationProcessorCore,
};
use windows_sys::Win32::System::Threading::{
    ALL_PROCESSOR_GROUPS, GetActiveProcessorCount, GetActiveProcessorGroupCount, GetCurrentProcess,
    GetCurrentProcessorNumberEx, GetCurrentThread, GetProcessAffinityMask, GetThreadGroupAffinity,
    SetThreadGroupAffinity,
};
use windows_sys::w;

use crate::processors::{Cache, CpuSet, Frequency};

/// More than Windows can have.
pub const MOST: usize = 8192;

/// A thread of which the program has asked nothing may run on all that the process may use, though
/// older versions of Windows keep it in one group.
pub fn of_current_thread() -> io::Result<CpuSet> {
    let process = of_main_thread()?;
    let mut found = GROUP_AFFINITY::default();
    // SAFETY: there is memory for the result.
    if unsafe { GetThreadGroupAffinity(GetCurrentThread(), &mut found) } == FALSE {
        return Err(io::Error::last_os_error());
    }
    let bound = found.Mask as u64;
    let whole_group = process.0.get(usize::from(found.Group)).copied();
    match whole_group.is_none_or(|whole| bound & whole == whole) {
        true => Ok(process),
        false => Ok(of_group(found.Group.into(), bound)),
    }
}

/// The processors of the process, which are those of its first thread.
pub fn of_main_thread() -> io::Result<CpuSet> {
    let online = all();
    let (mut process, mut system) = (0, 0);
    // SAFETY: there is memory for both masks.
    let known =
        unsafe { GetProcessAffinityMask(GetCurrentProcess(), &mut process, &mut system) } != FALSE;
    if !known {
        return Err(io::Error::last_os_error());
    }
    // The masks are those of one group. Where there are several, both are zero if threads of the
    // process are in several; if not, a mask that leaves nothing out says nothing of the others.
    let in_one_group = online.0.iter().filter(|&&group| group != 0).count() <= 1;
    Ok(match in_one_group && process != 0 {
        true => of_group(0, process as u64),
        false => online,
    })
}

fn of_group(group: usize, mask: u64) -> CpuSet {
    let mut set = CpuSet::default();
    if let Some(word) = set.0.get_mut(group) {
        *word = mask;
    }
    set
}

/// All active processors.
fn all() -> CpuSet {
    let mut set = CpuSet::default();
    // SAFETY: the calls take numbers and change nothing.
    unsafe {
        for group in 0..GetActiveProcessorGroupCount() {
            let first = usize::from(group) * 64;
            (0..GetActiveProcessorCount(group) as usize).for_each(|at| set.insert(first + at));
        }
    }
    set
}

/// A thread is bound within one group: the one that has most of the set's processors.
pub fn bind(set: &CpuSet) -> io::Result<()> {
    let Some((group, mask)) = group_for(set, &of_main_thread()?) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let affinity = GROUP_AFFINITY {
        Mask: mask as usize,
        Group: group as u16,
        Reserved: [0; 3],
    };
    // SAFETY: the struct lives during the call, and the affinity before is not asked for.
    match unsafe { SetThreadGroupAffinity(GetCurrentThread(), &affinity, ptr::null_mut()) } {
        FALSE => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The group with most processors that are both in the set and allowed, and these processors.
fn group_for(set: &CpuSet, allowed: &CpuSet) -> Option<(usize, u64)> {
    let groups = set.0.iter().zip(&allowed.0);
    let masks = groups.map(|(wanted, allowed)| wanted & allowed).enumerate();
    // Of several that have equally many, the first.
    masks
        .filter(|(_, mask)| *mask != 0)
        .rev()
        .max_by_key(|(_, mask)| mask.count_ones())
}

/// The number of processors of the machine that are online.
pub fn online() -> usize {
    // SAFETY: the call takes a number and changes nothing.
    match unsafe { GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) } {
        0 => usize::MAX,
        count => count as usize,
    }
}

/// The processor on which the calling thread runs at this moment. It costs some nanoseconds and no
/// system call.
#[inline]
pub fn current() -> Option<usize> {
    let mut number = PROCESSOR_NUMBER::default();
    // SAFETY: there is memory for the number.
    unsafe { GetCurrentProcessorNumberEx(&mut number) };
    Some(usize::from(number.Group) * 64 + usize::from(number.Number))
}

/// The size in bytes of the third-level cache that the first processor uses, if the system reports
/// it.
pub fn last_level_cache() -> Option<usize> {
    let third = caches(0).into_iter().find(|cache| cache.level == 3)?;
    Some(third.bytes).filter(|&bytes| bytes > 0)
}

/// The caches with data that this processor uses, from the nearest on, as far as the system reports
/// them.
pub fn caches(processor: usize) -> Vec<Cache> {
    let read = |record: &CACHE_RELATIONSHIP| {
        // SAFETY: both members of the union begin with the first group's processors.
        let group = unsafe { record.Anonymous.GroupMask };
        (record.Type != CacheInstruction).then(|| Cache {
            level: record.Level.into(),
            bytes: record.CacheSize as usize,
            processors: of_group(group.Group.into(), group.Mask as u64),
        })
    };
    let all = of_relation(RelationCache, read).into_iter().flatten();
    let mut found: Vec<Cache> = all
        .filter(|cache| cache.processors.contains(processor))
        .collect();
    found.sort_by_key(|cache| cache.level);
    found
}

/// The processors of each memory node that has some, in its first group.
pub fn memory_nodes() -> Vec<CpuSet> {
    let nodes = of_relation(RelationNumaNode, |record: &NUMA_NODE_RELATIONSHIP| {
        // SAFETY: both members of the union begin with the first group's processors.
        let group = unsafe { record.Anonymous.GroupMask };
        of_group(group.Group.into(), group.Mask as u64)
    });
    nodes.into_iter().filter(|node| !node.is_empty()).collect()
}

/// The processors of the machine that are online.
pub fn online_set() -> Option<CpuSet> {
    Some(all())
}

/// The processors that share a core with this one, itself included, if the system reports them.
pub fn siblings(processor: usize) -> Option<CpuSet> {
    let cores = of_relation(RelationProcessorCore, |record: &PROCESSOR_RELATIONSHIP| {
        let [core] = record.GroupMask;
        of_group(core.Group.into(), core.Mask as u64)
    });
    cores.into_iter().find(|core| core.contains(processor))
}

/// The system's records of one kind about processors.
fn of_relation<T, R>(kind: LOGICAL_PROCESSOR_RELATIONSHIP, read: impl Fn(&T) -> R) -> Vec<R> {
    /// The kind and the size of a record, before what it says.
    const HEAD: usize = 8;
    let mut length = 0;
    // SAFETY: without room, the call only says how many bytes it needs.
    unsafe { GetLogicalProcessorInformationEx(kind, ptr::null_mut(), &mut length) };
    let mut records = vec![0u64; (length as usize).div_ceil(8)];
    // SAFETY: there is room for as many bytes as the call is told.
    let known = unsafe {
        GetLogicalProcessorInformationEx(kind, records.as_mut_ptr().cast(), &mut length) != FALSE
    };
    let mut found = Vec::new();
    let mut at = 0;
    let end = if known { length as usize } else { 0 };
    while at + HEAD + size_of::<T>() <= end {
        // SAFETY: a record of this kind begins here, and all of it was filled in: its size is at
        // least that of its type, whose fields are numbers. Records are aligned for eight bytes.
        let (size, record) = unsafe {
            let start = records.as_ptr().byte_add(at);
            let size = start.cast::<u32>().add(1).read();
            (size as usize, &*start.byte_add(HEAD).cast::<T>())
        };
        found.push(read(record));
        at += size.max(HEAD);
    }
    found
}

/// The system does not report how the frequency is chosen.
pub fn frequency(_: usize) -> Option<Frequency> {
    None
}

/// The system's name of the first processor.
pub fn model() -> Option<String> {
    let mut name = [0u16; 128];
    let mut bytes = size_of_val(&name) as u32;
    // SAFETY: both names end with zeros, and there is room for as many bytes as the call is told.
    let error = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            w!(r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"),
            w!("ProcessorNameString"),
            RRF_RT_REG_SZ,
            ptr::null_mut(),
            name.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    let text = name.split(|&unit| unit == 0).next()?;
    (error == ERROR_SUCCESS).then(|| String::from_utf16_lossy(text).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_bound_in_the_group_that_has_most() {
        let set = |processors: &[usize]| processors.iter().copied().collect::<CpuSet>();
        let allowed: CpuSet = (0..128).collect();
        let chosen = |processors: &[usize]| group_for(&set(processors), &allowed);
        assert_eq!(chosen(&[1, 64, 65]), Some((1, 0b11)));
        assert_eq!(chosen(&[1, 64]), Some((0, 0b10)));
        assert_eq!(chosen(&[128, 1023]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn cores_have_their_processors() {
        let core = siblings(0).unwrap();
        assert!(core.contains(0) && core.count() <= online());
    }
}
