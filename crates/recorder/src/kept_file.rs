//! Files that the recorder keeps open in a process that belongs to somebody else.
//!
//! A program may close descriptors that it does not know: daemons do, `os.closerange` does, and so does any
//! double close. The next file that the program opens then gets the same number. A [`KeptFile`] therefore
//! knows the device and the inode of its file, and looks at them before each read and write. If another file
//! has the number, that file is the program's: it is neither written nor closed. Ours is opened again by its
//! path.
//!
//! Rule: nothing is ever written through a descriptor that was not compared just before.

use crate::place;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Device and inode of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileId {
    device: (u32, u32),
    inode: u64,
}

impl FileId {
    /// Of an open file. No file system is asked for news: over a network, that would write back what is
    /// dirty, or wait for a server that does not answer.
    ///
    /// # Errors
    /// When nothing is open under this number, or the kernel gives no answer.
    pub fn of(file: &impl AsRawFd) -> io::Result<FileId> {
        let fd = file.as_raw_fd();
        // SAFETY: both calls fill in the zeroed struct that they are given; the path is empty.
        unsafe {
            let mut new: libc::statx = std::mem::zeroed();
            let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
            if libc::statx(fd, c"".as_ptr(), flags, libc::STATX_INO, &mut new) == 0 {
                return Ok(FileId {
                    device: (new.stx_dev_major, new.stx_dev_minor),
                    inode: new.stx_ino,
                });
            }
            // Kernels before 4.11 and some sandboxes have no statx.
            let mut old: libc::stat = std::mem::zeroed();
            if libc::fstat(fd, &mut old) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(FileId {
                device: (libc::major(old.st_dev), libc::minor(old.st_dev)),
                inode: old.st_ino,
            })
        }
    }
}

/// See the module.
pub struct KeptFile {
    /// Nothing once the number belongs to another file.
    file: Option<File>,
    id: FileId,
    /// Where it is opened again; nothing for a file that has no name any more.
    path: Option<PathBuf>,
}

impl KeptFile {
    /// Creates a file that was not there, for this user only.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(path: &Path) -> io::Result<KeptFile> {
        KeptFile::of(File::from(place::create(path)?), Some(path.to_owned()))
    }

    /// A file that is open. Without a path, it is given up if its descriptor is taken away.
    ///
    /// # Errors
    /// When the kernel does not say which file it is.
    pub fn of(file: File, path: Option<PathBuf>) -> io::Result<KeptFile> {
        let id = FileId::of(&file)?;
        let file = Some(file);
        Ok(KeptFile { file, id, path })
    }

    /// Writes all of `bytes` at an offset.
    ///
    /// # Errors
    /// When the file takes them not, or is gone.
    pub fn write_all_at(&mut self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.ours()?.write_at(bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads some bytes at an offset; their number.
    ///
    /// # Errors
    /// When the file can't be read, or is gone.
    pub fn read_at(&mut self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        self.ours()?.read_at(bytes, at)
    }

    /// The file, which was compared just now; opened again if its descriptor is another's.
    fn ours(&mut self) -> io::Result<&File> {
        if !self.holds() {
            self.leave();
            let gone = || io::Error::from(io::ErrorKind::NotFound);
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(self.path.as_ref().ok_or_else(gone)?)?;
            let file = File::from(place::beyond_standard_streams(file.into())?);
            if FileId::of(&file)? != self.id {
                return Err(gone());
            }
            self.file = Some(file);
        }
        self.file
            .as_ref()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Whether the descriptor is this file's.
    fn holds(&self) -> bool {
        let id = self.file.as_ref().map(FileId::of);
        id.and_then(Result::ok) == Some(self.id)
    }

    /// Forgets a descriptor that belongs to the program now, without closing it.
    fn leave(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = file.into_raw_fd();
        }
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        if !self.holds() {
            self.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Closes the descriptor, and opens another file under its number, as a program may do.
    fn taken(kept: &KeptFile, other: &File) -> i32 {
        let fd = kept.file.as_ref().expect("open").as_raw_fd();
        // SAFETY: both are open; dup2 closes the first and makes it the second.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), fd) }, fd);
        fd
    }

    #[test]
    fn a_descriptor_of_the_program_is_neither_written_nor_closed() {
        let folder = tempfile::tempdir().expect("made");
        let (path, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        std::fs::write(&theirs, b"PRECIOUS").expect("written");
        let other = OpenOptions::new().read(true).write(true).open(&theirs);
        let other = other.expect("opened");

        let mut kept = KeptFile::create(&path).expect("created");
        kept.write_all_at(b"one", 0).expect("written");
        let first = taken(&kept, &other);
        kept.write_all_at(b"two", 3).expect("opened again");
        let second = taken(&kept, &other);
        drop(kept);
        for fd in [first, second] {
            // SAFETY: asks, and closes what the program opened here.
            unsafe {
                assert!(libc::fcntl(fd, libc::F_GETFD) >= 0, "{fd} was closed");
                libc::close(fd);
            }
        }
        assert_eq!(std::fs::read(&path).expect("read"), b"onetwo");
        assert_eq!(std::fs::read(&theirs).expect("read"), b"PRECIOUS");
    }

    #[test]
    fn another_file_under_the_path_is_left_alone() {
        let folder = tempfile::tempdir().expect("made");
        let (path, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        std::fs::write(&theirs, b"PRECIOUS").expect("written");
        let mut kept = KeptFile::create(&path).expect("created");
        let fd = taken(&kept, &File::open(&theirs).expect("opened"));
        std::fs::rename(&theirs, &path).expect("renamed");
        let error = kept.write_all_at(b"one", 0).expect_err("not ours");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert_eq!(std::fs::read(&path).expect("read"), b"PRECIOUS");
        // SAFETY: what the program opened here.
        unsafe { libc::close(fd) };
    }
}
