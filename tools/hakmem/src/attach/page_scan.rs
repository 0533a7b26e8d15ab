// SPDX-License-Identifier: MIT
//! PAGEMAP_SCAN of /proc/PID/pagemap, of Linux 6.7 (Documentation/admin-guide/mm/pagemap.rst): the stretches of a range
//! that are resident or swapped. What has no page is passed over quickly.

use nix::errno::Errno;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// _IOWR('f', 16, struct pm_scan_arg)
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const PRESENT: u64 = 1 << 3;
const SWAPPED: u64 = 1 << 4;
const ZEROS: u64 = 1 << 5;
/// The process maps no memory during a call, so one looks at so many bytes, and finds so many pages, at the most.
const RANGE_MAX: u64 = 1 << 30;
const PAGES_MAX: u64 = 8192;
const STRETCHES_MAX: usize = 512;

/// struct pm_scan_arg
#[repr(C)]
#[derive(Default)]
struct Request {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    stretches: u64,
    stretches_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// struct page_region
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Stretch {
    pub start: u64,
    pub end: u64,
    categories: u64,
}

impl Stretch {
    pub fn is_present(&self) -> bool {
        self.categories & PRESENT != 0
    }

    pub fn is_swapped(&self) -> bool {
        self.categories & SWAPPED != 0
    }

    /// A page of zeros of the kernel's, for memory that was read and never written.
    pub fn is_zeros(&self) -> bool {
        self.categories & ZEROS != 0
    }
}

pub struct Scan<'a> {
    pagemap: &'a File,
    left: Range<u64>,
    stretches: [Stretch; STRETCHES_MAX],
}

impl Scan<'_> {
    /// From one page to another.
    pub fn of(pagemap: &File, range: Range<u64>) -> Scan<'_> {
        Scan { pagemap, left: range, stretches: [Stretch::default(); STRETCHES_MAX] }
    }

    pub fn is_over(&self) -> bool {
        self.left.is_empty()
    }

    pub fn next(&mut self) -> Result<&[Stretch], Errno> {
        let mut request = Request {
            size: size_of::<Request>() as u64,
            start: self.left.start,
            end: self.left.end.min(self.left.start + RANGE_MAX),
            stretches: self.stretches.as_mut_ptr() as u64,
            stretches_len: STRETCHES_MAX as u64,
            max_pages: PAGES_MAX,
            category_anyof_mask: PRESENT | SWAPPED,
            return_mask: PRESENT | SWAPPED | ZEROS,
            ..Request::default()
        };
        // SAFETY: the kernel reads and writes the request, and writes stretches, as many as there is room for.
        let count = Errno::result(unsafe { libc::ioctl(self.pagemap.as_raw_fd(), PAGEMAP_SCAN as _, &mut request) })?;
        if request.walk_end <= self.left.start {
            return Err(Errno::EINVAL); // else this would never end
        }
        self.left.start = request.walk_end;
        Ok(&self.stretches[..(count as usize).min(STRETCHES_MAX)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_kernels() {
        assert_eq!((size_of::<Request>(), size_of::<Stretch>()), (96, 24));
    }
}
