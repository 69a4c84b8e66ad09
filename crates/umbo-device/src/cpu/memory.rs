//! How much memory the host has.

use crate::MemoryInfo;
use umbo_base::error::{Error, Result};

const MEMINFO: &str = "/proc/meminfo";

/// The host's memory as the kernel counts it: the total, and what new allocations could get without
/// swapping. Limits of a container are not part of these numbers. Fails with UNAVAILABLE if the
/// kernel does not report them. Any thread may call this; it reads one small file.
pub fn memory_info() -> Result<MemoryInfo> {
    let text = std::fs::read_to_string(MEMINFO).map_err(|cause| {
        Error::Unavailable(format!(
            "the host's memory size: cannot read {MEMINFO}: {cause}"
        ))
    })?;
    parse(&text).ok_or_else(|| {
        Error::Unavailable(format!(
            "the host's memory size: {MEMINFO} has no MemTotal or no MemAvailable in kB"
        ))
    })
}

fn parse(meminfo: &str) -> Option<MemoryInfo> {
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
    Some(MemoryInfo {
        total_bytes: bytes_of("MemTotal")?,
        available_bytes: bytes_of("MemAvailable")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_kibibytes() {
        let text = "MemTotal:       32768 kB\nMemFree:  1 kB\nMemAvailable:   1024 kB\n";
        let expected = MemoryInfo {
            total_bytes: 32768 * 1024,
            available_bytes: 1024 * 1024,
        };
        assert_eq!(parse(text), Some(expected));
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

    #[test]
    fn the_host_has_memory() {
        let info = memory_info().unwrap();
        assert!(info.total_bytes > 0);
        assert!(info.available_bytes <= info.total_bytes);
    }
}
