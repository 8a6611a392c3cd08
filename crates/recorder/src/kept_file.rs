//! Files that the recorder keeps open in a process that belongs to somebody else.
//!
//! A program may close descriptors that it does not know: daemons do, `os.closerange` does, and so does any
//! double close. The next file that the program opens then gets the same number. An [`OpenFile`] therefore
//! knows the device and the inode of its file, and looks at them before each use. If another file has the
//! number, that file is the program's: it is neither written nor closed. A [`KeptFile`] opens ours again by
//! its path.
//!
//! The program may even take a number while the file is being opened, because it is ours from `open` on and
//! known to be only at the first look. So the file under the path is asked for its device and inode, too. If
//! the new descriptor has others, either may be the case: the program has the number, or the path leads to
//! another file since. Such a descriptor is left open ([`MOST_LEFT`]).
//!
//! Rule: nothing is ever written through, and no number is ever closed, that was not compared just before.

use capture::file_id::{FileId, Link};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Descriptors that a process has at most which may be ours, may be the program's, and are not closed
/// therefore. Then the recorder opens no more files. Each is a moment of some microseconds in which the
/// program, too, closed a number that was not its own and opened a file.
const MOST_LEFT: u32 = 64;

/// Those that there are.
static LEFT: AtomicU32 = AtomicU32::new(0);

/// An open file, with its device and inode. When it is dropped, its number is closed if it is still the
/// file's.
pub struct OpenFile {
    /// Nothing once the number belongs to another file.
    file: Option<File>,
    id: FileId,
}

impl OpenFile {
    /// Creates a file that was not there, readable and writable by this user only.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(path: &CStr) -> io::Result<OpenFile> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let fd = open(path, flags)?;
        OpenFile::compared(fd, FileId::at(path, Link::Refused)).inspect_err(|_| {
            // SAFETY: a C string. The file was made here, and the next try must not find it.
            unsafe { libc::unlink(path.as_ptr()) };
        })
    }

    /// Opens a file once more.
    ///
    /// # Errors
    /// When it can't be opened, or when another file is under its path.
    pub fn again(path: &CStr, id: FileId) -> io::Result<OpenFile> {
        if FileId::at(path, Link::Refused)? != id {
            return Err(gone());
        }
        let flags = libc::O_RDWR | libc::O_NOFOLLOW | libc::O_NONBLOCK;
        OpenFile::compared(open(path, flags)?, Ok(id))
    }

    /// Opens the file under a path, or under the link there, for reading.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn read_only(path: &CStr) -> io::Result<OpenFile> {
        let id = FileId::at(path, Link::Followed)?;
        OpenFile::compared(open(path, libc::O_RDONLY)?, Ok(id))
    }

    /// A descriptor that was opened just now, if it is of this file. Otherwise nobody knows whose it is.
    fn compared(fd: OwnedFd, id: io::Result<FileId>) -> io::Result<OpenFile> {
        match id {
            Ok(id) if FileId::of(&fd).is_ok_and(|found| found == id) => Ok(OpenFile {
                file: Some(fd.into()),
                id,
            }),
            _ => {
                let _ = fd.into_raw_fd();
                LEFT.fetch_add(1, Relaxed);
                Err(gone())
            }
        }
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// The file, if its number was its own just now.
    ///
    /// # Errors
    /// When it belongs to the program.
    pub fn get(&self) -> io::Result<&File> {
        let file = self.file.as_ref().ok_or_else(gone)?;
        let ours = FileId::of(file).is_ok_and(|found| found == self.id);
        ours.then_some(file).ok_or_else(gone)
    }
}

impl OpenFile {
    /// Forgets a number that is not the file's any more, without closing it.
    fn leave(&mut self) {
        if let Some(file) = self.file.take() {
            let _ = file.into_raw_fd();
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        if self.get().is_err() {
            self.leave();
        }
    }
}

fn gone() -> io::Error {
    io::ErrorKind::NotFound.into()
}

/// Opens a file under a number that programs do not write to without having opened it. If standard output or
/// error is closed, the next file that is opened gets its number, and receives what the program prints.
fn open(path: &CStr, flags: i32) -> io::Result<OwnedFd> {
    if LEFT.load(Relaxed) >= MOST_LEFT {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    // SAFETY: a C string, and the mode of a file that is created; what is opened is owned from here on.
    let fd = unsafe {
        let fd = libc::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0o600);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    let (command, least) = (libc::F_DUPFD_CLOEXEC, libc::STDERR_FILENO + 1);
    // SAFETY: a descriptor of ours; the new one is owned from here on.
    unsafe {
        let moved = libc::fcntl(fd.as_raw_fd(), command, least);
        if moved < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(moved))
    }
}

/// See the module.
pub struct KeptFile {
    file: OpenFile,
    /// Where it is opened again; nothing for a file that has no name any more.
    path: Option<CString>,
}

impl KeptFile {
    /// Creates a file that was not there, for this user only.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(path: &Path) -> io::Result<KeptFile> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        let file = OpenFile::create(&path)?;
        let path = Some(path);
        Ok(KeptFile { file, path })
    }

    /// Opens a file for reading. It is given up if its descriptor is taken away.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn read_only(path: &Path) -> io::Result<KeptFile> {
        let file = OpenFile::read_only(&CString::new(path.as_os_str().as_bytes())?)?;
        Ok(KeptFile { file, path: None })
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
        if self.file.get().is_err() {
            // Before ours gets a number, which may be the same.
            self.file.leave();
            let path = self.path.as_ref().ok_or_else(gone)?;
            self.file = OpenFile::again(path, self.file.id)?;
        }
        self.file.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    /// Closes the descriptor, and opens another file under its number, as a program may do.
    fn taken(kept: &KeptFile, other: &File) -> i32 {
        let fd = kept.file.get().expect("open").as_raw_fd();
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
    fn a_file_may_get_the_number_that_was_closed() {
        let folder = tempfile::tempdir().expect("made");
        let path = folder.path().join("ours");
        let mut kept = KeptFile::create(&path).expect("created");
        for (at, byte) in (0..).zip(b"abcd") {
            // SAFETY: it is open. The next file that is opened gets the number.
            unsafe { libc::close(kept.file.get().expect("open").as_raw_fd()) };
            kept.write_all_at(&[*byte], at).expect("written");
            assert!(kept.file.get().is_ok());
        }
        assert_eq!(std::fs::read(&path).expect("read"), b"abcd");
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

    #[test]
    fn a_descriptor_that_the_program_took_while_it_was_opened_is_not_closed() {
        let folder = tempfile::tempdir().expect("made");
        let path = |name: &str| folder.path().join(name);
        let c_path = |name: &str| CString::new(path(name).as_os_str().as_bytes()).expect("a path");
        std::fs::write(path("theirs"), b"PRECIOUS").expect("written");
        OpenFile::create(&c_path("ours")).expect("created");
        let id = FileId::at(&c_path("ours"), Link::Refused);
        // What `open` has returned, and leads to a file of the program by now.
        let fd = open(&c_path("theirs"), libc::O_RDWR).expect("opened");
        let number = fd.as_raw_fd();
        let left = LEFT.load(Relaxed);
        let error = OpenFile::compared(fd, id).err().expect("not ours");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(LEFT.load(Relaxed) > left);
        // SAFETY: asks, and closes what the program opened here.
        unsafe {
            assert!(libc::fcntl(number, libc::F_GETFD) >= 0, "it was closed");
            libc::close(number);
        }
    }
}
