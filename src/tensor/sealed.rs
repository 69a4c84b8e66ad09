//! Pages that can be closed for writing: whoever writes them nevertheless ends the process with
//! SIGSEGV, at the instruction that writes.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::observe::log::{self, Level};
use parking_lot::Mutex;

/// Pages of their own, with a closed one on each side, so that no other mapping becomes one with them:
/// opening and closing them then needs nothing that the system could refuse.
pub struct Pages {
    /// The closed page before them.
    first: NonNull<u8>,
    page: usize,
    /// Of the pages between the closed ones.
    bytes: usize,
    /// They are to be closed when nobody writes.
    is_sealed: AtomicBool,
    /// How many write. Opening and closing are done under the lock: whoever comes second finds the pages
    /// open.
    writers: Mutex<usize>,
}

// SAFETY: pages are an address range that their owner alone unmaps; no thread is bound to it.
unsafe impl Send for Pages {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for Pages {}

impl Pages {
    /// At least `bytes` zeros, open for writing. `None` if the system has none.
    pub fn new(bytes: usize) -> Option<Pages> {
        // SAFETY: a question.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let bytes = bytes.max(1).checked_next_multiple_of(page)?;
        let whole = bytes.checked_add(2 * page)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping at a place of the system's choice touches nothing that exists.
        let first = unsafe { libc::mmap(ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
        if first == libc::MAP_FAILED {
            return None;
        }
        let first = NonNull::new(first.cast::<u8>())?;
        let (is_sealed, writers) = (AtomicBool::new(false), Mutex::new(0));
        let pages = Pages { first, page, bytes, is_sealed, writers };
        pages.protect(libc::PROT_READ | libc::PROT_WRITE).then_some(pages)
    }

    /// The first byte.
    pub fn data(&self) -> *mut u8 {
        self.first.as_ptr().wrapping_add(self.page)
    }

    /// Closes the pages, but for the time between [`Pages::open`] and [`Pages::close`]. `name` is what
    /// the system's list of mappings calls them, where it has names.
    pub fn seal(&self, name: &str) {
        self.tell_name(name);
        let closed = self.protect(libc::PROT_READ);
        self.is_sealed.store(closed, Ordering::Release);
    }

    /// Whether they are closed but for those who open them.
    pub fn is_sealed(&self) -> bool {
        self.is_sealed.load(Ordering::Acquire)
    }

    /// Lets the pages be written until [`Pages::close`] has been called as often.
    pub fn open(&self) {
        if !self.is_sealed() {
            return;
        }
        let mut writers = self.writers.lock();
        if *writers == 0 {
            self.protect(libc::PROT_READ | libc::PROT_WRITE);
        }
        *writers += 1;
    }

    /// Ends what [`Pages::open`] began.
    pub fn close(&self) {
        if !self.is_sealed() {
            return;
        }
        let mut writers = self.writers.lock();
        *writers = writers.saturating_sub(1);
        if *writers == 0 {
            self.protect(libc::PROT_READ);
        }
    }

    fn protect(&self, protection: i32) -> bool {
        // SAFETY: these pages are ours, and who opens them has no doubt that they are there; reading
        // stays possible.
        let done = unsafe { libc::mprotect(self.data().cast(), self.bytes, protection) } == 0;
        if !done {
            let cause = std::io::Error::last_os_error();
            log::log(Level::Error, || {
                format!("the protection of pages cannot be changed: {cause}")
            });
        }
        done
    }

    /// Names are of printable characters, and short.
    fn tell_name(&self, name: &str) {
        const MOST: usize = 79;
        let is_allowed = |byte: &u8| byte.is_ascii_graphic() && !br"[]\`$".contains(byte);
        let mut text = [0u8; MOST + 1];
        for (to, byte) in text[..MOST].iter_mut().zip(name.bytes()) {
            *to = if is_allowed(&byte) { byte } else { b'_' };
        }
        // Only a hint for whoever reads the list; systems without names refuse.
        // SAFETY: the range is ours, the text ends in a zero and is copied.
        unsafe {
            libc::prctl(
                libc::PR_SET_VMA,
                libc::PR_SET_VMA_ANON_NAME as libc::c_ulong,
                self.data().addr() as libc::c_ulong,
                self.bytes as libc::c_ulong,
                text.as_ptr().addr() as libc::c_ulong,
            );
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let whole = self.bytes + 2 * self.page;
        // SAFETY: mapped by `new`, and their owner, who alone knows them, is done.
        unsafe { libc::munmap(self.first.as_ptr().cast(), whole) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// What the system says of the mapping that has `address`.
    fn permissions(address: *const u8) -> String {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let holds = |line: &&str| {
            let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let number = |text| usize::from_str_radix(text, 16).unwrap();
            (number(from)..number(to)).contains(&address.addr())
        };
        let line = maps.lines().find(holds).unwrap();
        line.split(' ').nth(1).unwrap().to_owned()
    }

    #[test]
    fn pages_are_closed_but_for_writers() {
        let pages = Pages::new(5000).unwrap();
        let data = pages.data();
        assert_eq!((permissions(data), pages.is_sealed()), ("rw-p".into(), false));
        // Without a seal there is nothing to open.
        pages.open();
        pages.close();
        // SAFETY: ours, and open.
        unsafe { data.add(4999).write(3) };
        pages.seal("umbo: a name, $[strange]");
        assert_eq!((permissions(data), pages.is_sealed()), ("r--p".into(), true));
        pages.open();
        pages.open();
        assert_eq!(permissions(data), "rw-p");
        pages.close();
        assert_eq!(permissions(data), "rw-p");
        pages.close();
        assert_eq!(permissions(data), "r--p");
        // SAFETY: reading is allowed all the time.
        assert_eq!(unsafe { data.add(4999).read() }, 3);
        let end = data.wrapping_add(pages.bytes);
        assert_eq!(
            (permissions(data.wrapping_sub(1)), permissions(end)),
            ("---p".into(), "---p".into())
        );
    }

    #[test]
    fn what_the_system_has_not_is_refused() {
        assert!(Pages::new(usize::MAX).is_none());
        assert!(Pages::new(usize::MAX / 2).is_none());
        assert!(Pages::new(0).is_some());
    }
}
