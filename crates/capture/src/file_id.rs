//! Which file it is: how a process that is somebody else's tells its own descriptors from the program's.

use std::ffi::CStr;
use std::io;
use std::os::fd::AsRawFd;

/// Device and inode of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    device: (u32, u32),
    inode: u64,
}

impl FileId {
    /// Device and inode as two numbers.
    pub fn words(self) -> [u64; 2] {
        let (major, minor) = self.device;
        [u64::from(major) << 32 | u64::from(minor), self.inode]
    }

    /// Of an open file.
    ///
    /// # Errors
    /// When nothing is open under this number, or the kernel gives no answer.
    pub fn of(file: &impl AsRawFd) -> io::Result<FileId> {
        FileId::ask(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH)
    }

    /// Of the file under a path.
    ///
    /// # Errors
    /// When nothing is there, or the kernel gives no answer.
    pub fn at(path: &CStr, link: Link) -> io::Result<FileId> {
        let flags = match link {
            Link::Refused => libc::AT_SYMLINK_NOFOLLOW,
            Link::Followed => 0,
        };
        FileId::ask(libc::AT_FDCWD, path, flags)
    }

    /// No file system is asked for news of a file: over a network, that would write back what is dirty, or
    /// wait for a server that does not answer.
    fn ask(at: i32, path: &CStr, flags: i32) -> io::Result<FileId> {
        // SAFETY: both calls fill in the zeroed struct that they are given; the path is a C string.
        unsafe {
            let mut new: libc::statx = std::mem::zeroed();
            let asked = flags | libc::AT_STATX_DONT_SYNC;
            // The kernel is asked directly: glibc has had a function for it since 2.28 only.
            let known = libc::syscall(
                libc::SYS_statx,
                at,
                path.as_ptr(),
                asked,
                libc::STATX_INO,
                &raw mut new,
            );
            if known == 0 {
                return Ok(FileId {
                    device: (new.stx_dev_major, new.stx_dev_minor),
                    inode: new.stx_ino,
                });
            }
            // Kernels before 4.11 and some sandboxes have no statx.
            let mut old: libc::stat = std::mem::zeroed();
            if libc::fstatat(at, path.as_ptr(), &mut old, flags) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(FileId {
                device: (libc::major(old.st_dev), libc::minor(old.st_dev)),
                inode: old.st_ino,
            })
        }
    }
}

/// What becomes of a path that ends in a link.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    /// The id is the link's own.
    Refused,
    /// The id is that of the file where the link leads.
    Followed,
}
