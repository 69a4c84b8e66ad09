//! The sizes of pages, and the kernel's account of its memory.

use std::ffi::c_int;
use std::io;

use crate::memory::MemorySize;
pub use crate::posix::memory::Pages;

/// A multiple of every size of ordinary pages that Linux has.
pub const PAGE: usize = 64 << 10;

/// The usual size of large pages.
pub const LARGE_PAGE: usize = 2 << 20;

/// The advice to use large pages.
pub const LARGE_PAGES_ADVICE: Option<c_int> = Some(libc::MADV_HUGEPAGE);

/// The command by which root gives large pages to memory that asks for them.
pub const LARGE_PAGES_COMMAND: &str = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";

/// The memory that gets large pages, in the system's words: `always`, who asks by `madvise`, or
/// `never` anybody. None if the system has none.
pub fn large_pages() -> Option<String> {
    choice(&std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?)
}

/// Parses a list of choices with the current one in brackets.
fn choice(setting: &str) -> Option<String> {
    let (choice, _) = setting.split_once('[')?.1.split_once(']')?;
    Some(choice.to_owned())
}

/// The host's memory as the kernel counts it. Limits of a container are not part of it. Reads one
/// small file.
pub fn size() -> io::Result<MemorySize> {
    const PATH: &str = "/proc/meminfo";
    let text = std::fs::read_to_string(PATH).map_err(|cause| {
        let problem = format!("cannot read {PATH}: {cause}");
        io::Error::new(cause.kind(), problem)
    })?;
    parse(&text).ok_or_else(|| {
        let problem = format!("{PATH} has no MemTotal or no MemAvailable in kB");
        io::Error::new(io::ErrorKind::InvalidData, problem)
    })
}

fn parse(meminfo: &str) -> Option<MemorySize> {
    let bytes_of = |field: &str| {
        let line = meminfo
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        line.trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    Some(MemorySize {
        total: bytes_of("MemTotal")?,
        available: bytes_of("MemAvailable")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_kibibytes() {
        let text = "MemTotal:       32768 kB\nMemFree:  1 kB\nMemAvailable:   1024 kB\n";
        let expected = MemorySize {
            total: 32768 * 1024,
            available: 1024 * 1024,
        };
        assert_eq!(parse(text), Some(expected));
    }

    #[test]
    fn the_choice_is_the_one_in_brackets() {
        assert_eq!(
            choice("always [madvise] never\n"),
            Some("madvise".to_owned())
        );
        assert_eq!(choice("always madvise never\n"), None);
    }

    #[test]
    fn a_missing_or_damaged_field_is_not_guessed() {
        assert_eq!(parse("MemTotal: 1 kB\n"), None);
        assert_eq!(parse("MemTotal: 1 kB\nMemAvailable: some kB\n"), None);
        assert_eq!(
            parse("MemTotal: 99999999999999999 kB\nMemAvailable: 1 kB\n"),
            None
        );
        assert_eq!(parse("MemTotalBytes: 1 kB\nMemAvailable: 1 kB\n"), None);
    }
}
