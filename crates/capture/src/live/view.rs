//! The bytes of a live part: a [`View`] borrows them, an [`Image`] owns them.
//!
//! Rule: [`View::open`] checks that every section lies in the bytes, so any bytes can be looked at.

use super::layout::{dense_of, relocate, stated, stored_in, ELEMENT, SECTIONS};
use super::{
    Comm, Group, Header, HistogramPage, Layout, Row, Section, Text, Total, HEADER_BYTES, MAGIC,
};
use crate::format::{Stated, FORMAT};
use crate::graphs::{Exec, Launch};
use crate::net_op::NetOp;
use crate::v1;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

/// A borrowed live part: the mapping of a living process, or a copy read from a file.
#[derive(Clone, Copy)]
pub struct View<'a> {
    base: *const u8,
    /// Offset of each section, and the elements that it has room for.
    sections: [[u32; 2]; SECTIONS],
    _image: std::marker::PhantomData<&'a [AtomicU64]>,
}

// SAFETY: a View only hands out references to atomics.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}

macro_rules! section {
    ($(#[$doc:meta])* $name:ident, $section:ident, $type:ty) => {
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) -> &'a [$type] {
            let (first, _): (*const $type, usize) = self.room(Section::$section);
            // SAFETY: the constructors checked that the section lies in the image, which lives for 'a, and
            // that offsets are page aligned. Every field of the element types is an atomic integer, valid for
            // any bytes.
            unsafe { std::slice::from_raw_parts(first, self.count(Section::$section)) }
        }
    };
}

impl<'a> View<'a> {
    /// The blocks that are staged, as bytes.
    pub fn staged(&self) -> Vec<u8> {
        let len = self.header().staged_len.load(Acquire) as usize;
        let staging = self.staging();
        let staged = &staging[..len.min(staging.len())];
        staged.iter().map(|byte| byte.load(Relaxed)).collect()
    }

    /// Writes the layout into a zeroed image and returns its view. The caller fills in the header and stores
    /// [`MAGIC`] last.
    ///
    /// # Safety
    /// `base` points to `layout.bytes()` bytes, page aligned, that stay mapped for `'a`. What the layout uses
    /// is zeroed.
    pub unsafe fn create(base: *mut u8, layout: &Layout) -> View<'a> {
        let (sections, room) = (layout.sections(), layout.room());
        let view = View {
            base,
            sections: std::array::from_fn(|i| [sections[i][0], room[i]]),
            _image: std::marker::PhantomData,
        };
        let header = view.header();
        for (stored, section) in header.stored_sections().zip(sections) {
            stored[0].store(section[0], Relaxed);
            stored[1].store(section[1], Relaxed);
        }
        header.major.store(FORMAT.major, Relaxed);
        header.minor.store(FORMAT.minor, Relaxed);
        header.size.store(layout.bytes() as u32, Relaxed);
        view
    }

    /// The view of an image made elsewhere.
    ///
    /// `None` if it is no live part of this major number, or needs features that are not known, or if its
    /// sections do not lie inside `image`. One of format 1 is [made one](Image::upgraded) of this format
    /// before.
    pub fn open(image: &'a [AtomicU64]) -> Option<View<'a>> {
        let bytes = std::mem::size_of_val(image);
        let base: *const u8 = image.as_ptr().cast();
        if bytes < HEADER_BYTES || !(base as usize).is_multiple_of(64) {
            return None;
        }
        let mut view = View {
            base,
            sections: [[0; 2]; SECTIONS],
            _image: std::marker::PhantomData,
        };
        let header = view.header();
        if header.magic.load(Acquire) != MAGIC || header.major.load(Relaxed) != FORMAT.major {
            return None;
        }
        let required = header.required.load(Relaxed);
        if required & !crate::format::REQUIRED != 0 {
            return None;
        }
        for (i, stored) in header.stored_sections().enumerate() {
            let (at, count) = (stored[0].load(Relaxed), stored[1].load(Relaxed));
            let end = u64::from(at) + u64::from(count) * ELEMENT[i] as u64;
            if at % 4096 != 0 || end > bytes as u64 {
                return None;
            }
            view.sections[i] = [at, count];
        }
        Some(view)
    }

    /// The first element of a section, and how many there is room for.
    #[inline]
    pub fn room<T>(&self, section: Section) -> (*const T, usize) {
        let [at, most] = self.sections[section as usize];
        // SAFETY: the constructors checked that the section lies in the image.
        (unsafe { self.base.add(at as usize).cast() }, most as usize)
    }

    /// Offset and number of a section, as the header has them.
    #[inline]
    fn stored(&self, section: Section) -> Option<&'a [AtomicU32; 2]> {
        self.header().stored_sections().nth(section as usize)
    }

    #[inline]
    fn count(&self, section: Section) -> usize {
        let [_, most] = self.sections[section as usize];
        // Meets the Release in `grow`.
        let stored = self.stored(section).map_or(0, |s| s[1].load(Acquire));
        stored.min(most) as usize
    }

    /// Where in the image the elements of a section lie from `from` up to `to`, if it has room for them:
    /// offset and length in bytes.
    pub fn bytes_of(&self, section: Section, from: usize, to: usize) -> Option<(usize, usize)> {
        let ([at, most], element) = (self.sections[section as usize], ELEMENT[section as usize]);
        let fits = from <= to && to <= most as usize;
        fits.then(|| (at as usize + from * element, (to - from) * element))
    }

    /// Says that a section has `count` elements now.
    ///
    /// # Safety
    /// Their memory is there and zeroed, and no store to it fails.
    pub unsafe fn grow(&self, section: Section, count: usize) {
        if let Some(stored) = self.stored(section) {
            stored[1].store(count as u32, Release);
        }
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> &'a Header {
        // SAFETY: the image is at least HEADER_BYTES long and aligned (both constructors).
        unsafe { &*self.base.cast() }
    }

    section!(
        /// Interned strings; id `i` is entry `i - 1`.
        strings, Strings, Text
    );
    section!(
        /// Communicators.
        comms, Comms, Comm
    );
    section!(
        /// Groups; ticket `t` lives in entry `t % len`.
        groups, Groups, Group
    );
    section!(
        /// Totals.
        totals, Totals, Total
    );
    section!(
        /// Histogram pages.
        pages, Pages, HistogramPage
    );
    section!(
        /// Rows; ticket `t` lives in entry `t % len`.
        rows, Rows, Row
    );
    section!(
        /// Staged bytes of the trace file.
        staging, Staging, AtomicU8
    );
    section!(
        /// Open network operations; none in the live part of an older recorder.
        net_ops, NetOps, NetOp
    );

    section!(
        /// Executable graphs with captured calls; none in the live part of an older recorder.
        graphs, Graphs, Exec
    );
    section!(
        /// Newest graph launches; launch `i` is entry `i % len`.
        launches, Launches, Launch
    );

    /// The string with this id, or none for id 0 and unpublished entries.
    pub fn text(&self, id: u8) -> Option<String> {
        let text = self.strings().get(usize::from(id).checked_sub(1)?)?;
        let len = (text.len.load(Acquire) as usize)
            .checked_sub(2)?
            .min(text.bytes.len());
        let bytes: Vec<u8> = text.bytes[..len].iter().map(|b| b.load(Relaxed)).collect();
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// An owned copy of a live part, 64-byte aligned.
pub struct Image {
    storage: Vec<AtomicU64>,
    skip: usize,
}

impl Image {
    /// `bytes` of zeros.
    pub fn zeroed(bytes: usize) -> Image {
        let storage: Vec<AtomicU64> = (0..bytes.div_ceil(8) + 8)
            .map(|_| AtomicU64::new(0))
            .collect();
        let skip = storage.as_ptr().align_offset(64).min(8);
        Image { storage, skip }
    }

    /// A copy of the live part in `file`, without room for growth, and its bytes. `None` if the file holds
    /// none that this reader knows. One of format 1 is made one of this format.
    ///
    /// Read, never mapped: whoever shares the file could cut it short under a mapping.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn read(file: &File) -> io::Result<Option<(Image, usize)>> {
        let mut page = vec![0; HEADER_BYTES];
        if read_at(file, 0, &mut page)? < HEADER_BYTES || super::start(&page).is_none() {
            return Ok(None);
        }
        let is_old = stated(&page).is_some_and(|stated| stated.format.major == 1);
        let element = if is_old { &v1::ELEMENT } else { &ELEMENT };
        let size = file.metadata()?.len();
        let stored = stored_in(&page).filter(|sections| {
            let ends = sections.iter().zip(element);
            let mut ends = ends.map(|([at, n], e)| u64::from(*at) + u64::from(*n) * *e as u64);
            ends.all(|end| end <= size)
        });
        let found =
            stored.and_then(|stored| Some((stored, dense_of(stored.map(|[_, n]| n), element)?)));
        let Some((stored, (sections, bytes))) = found else {
            return Ok(None);
        };
        let image = Image::zeroed(bytes);
        relocate(&mut page, &sections, bytes);
        image.write(0, &page);
        let mut buffer = vec![0; 1 << 20];
        for ((from, to), element) in stored.iter().zip(&sections).zip(element) {
            let (mut at, length) = (0, to[1] as usize * element);
            while at < length {
                let want = buffer.len().min(length - at);
                let got = read_at(file, u64::from(from[0]) + at as u64, &mut buffer[..want])?;
                image.write(to[0] as usize + at, &buffer[..got]);
                if got < want {
                    break;
                }
                at += got;
            }
        }
        if is_old {
            return Ok(v1::upgrade(&image.bytes(bytes)));
        }
        Ok(Some((image, bytes)))
    }

    /// Puts the header and the staged bytes as they are now into a copy that [`Image::read`] made. False if
    /// the live part has grown since, or is none any more; the copy is then as it was.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn read_again(&self, file: &File) -> io::Result<bool> {
        let mut page = vec![0; HEADER_BYTES];
        let is_whole =
            read_at(file, 0, &mut page)? == HEADER_BYTES && super::start(&page).is_some();
        let (Some(view), Some(stored)) = (self.view(), stored_in(&page).filter(|_| is_whole))
        else {
            return Ok(false);
        };
        if stored.map(|[_, count]| count) != view.sections.map(|[_, count]| count) {
            return Ok(false);
        }
        relocate(
            &mut page,
            &view.sections,
            view.header().size.load(Relaxed) as usize,
        );
        v1::upgrade_page(&mut page);
        self.write(0, &page);
        let staged = view.header().staged_len.load(Acquire) as usize;
        let mut bytes = vec![0; staged.min(view.staging().len())];
        let section = Section::Staging as usize;
        let got = read_at(file, stored[section][0].into(), &mut bytes)?;
        self.write(view.sections[section][0] as usize, &bytes[..got]);
        Ok(true)
    }

    /// A copy of `bytes`.
    pub fn copy(bytes: &[u8]) -> Image {
        let image = Image::zeroed(bytes.len());
        image.write(0, bytes);
        image
    }

    /// Overwrites the image from byte `at` (a multiple of 8) on; what does not fit is left out.
    pub fn write(&self, at: usize, bytes: &[u8]) {
        let Some(words) = self.words().get(at / 8..) else {
            return;
        };
        for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
            let mut value = word.load(Relaxed).to_le_bytes();
            value[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(value), Relaxed);
        }
    }

    /// The words of the image.
    pub fn words(&self) -> &[AtomicU64] {
        &self.storage[self.skip..]
    }

    /// What the live part that it holds says of its format, which may be one that [`View::open`] does not
    /// know; `None` if it holds none.
    pub fn stated(&self) -> Option<Stated> {
        stated(&self.bytes(HEADER_BYTES))
    }

    /// Its first bytes.
    fn bytes(&self, most: usize) -> Vec<u8> {
        let words = &self.words()[..self.words().len().min(most / 8)];
        let words = words.iter().map(|word| word.load(Relaxed));
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// The live part of format 1 that it holds as one of this format; anything else as it is.
    pub fn upgraded(self) -> Image {
        if self.stated().is_none_or(|stated| stated.format.major != 1) {
            return self;
        }
        let upgraded = v1::upgrade(&self.bytes(usize::MAX));
        upgraded.map_or(self, |(image, _)| image)
    }

    /// Its view, if it is a live part.
    pub fn view(&self) -> Option<View<'_>> {
        View::open(self.words())
    }
}

/// Fills `buffer` from the file, as far as that goes; returns how far.
fn read_at(file: &File, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match file.read_at(&mut buffer[got..], at + got as u64) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::start;

    #[test]
    fn an_image_opens_and_a_damaged_one_does_not() {
        // Small, because Miri takes minutes for a megabyte.
        let layout = Layout {
            pages: 4,
            rows: 16,
            groups: 16,
            totals: 16,
            graphs: 16,
            launches: 16,
            net_ops: 16,
            staging: 4096,
            ..Layout::for_memory(0)
        };
        let image = Image::zeroed(layout.bytes());
        assert!(image.view().is_none());
        // SAFETY: the image is zeroed, long enough and outlives the view.
        let view = unsafe { View::create(image.words().as_ptr() as *mut u8, &layout) };
        let header = view.header();
        for (to, from) in header.process.iter().zip(b"pid=7\nhost=n") {
            to.store(*from, Relaxed);
        }
        header.process_len.store(12, Relaxed);
        let page = || -> Vec<u8> {
            let words = image.words()[..HEADER_BYTES / 8].iter();
            words.flat_map(|w| w.load(Relaxed).to_le_bytes()).collect()
        };
        let facts = |page: &[u8]| start(page).map(|(_, facts)| facts.to_vec());
        assert_eq!(facts(&page()), None);
        header.magic.store(MAGIC, Relaxed);
        header.born.store(9, Relaxed);
        assert_eq!(facts(&page()), Some(b"pid=7\nhost=n".to_vec()));
        assert_eq!(start(&page()).map(|(s, _)| s.announced()), Some(9));
        assert_eq!(facts(&page()[..100]), None);
        header.process_len.store(u32::MAX, Relaxed);
        assert_eq!(facts(&page()).map(|f| f.len()), Some(2560));
        assert_eq!(image.view().expect("opens").rows().len(), 16);
        let refused = || image.stated().expect("a live part").refused();
        assert_eq!(refused(), None);
        view.header().major.store(77, Relaxed);
        let said = refused().map(|refused| refused.to_string());
        assert_eq!(
            (said.as_deref(), image.view().is_none()),
            (Some("format 77.0"), true)
        );
        view.header().major.store(FORMAT.major, Relaxed);
        view.header().required.store(2, Relaxed);
        assert!(refused().is_some() && image.view().is_none() && start(&page()).is_none());
        view.header().required.store(0, Relaxed);
        view.header().optional.store(2, Relaxed);
        assert!(refused().is_none() && image.view().is_some() && start(&page()).is_some());
        view.header().sections[5][1].store(u32::MAX, Relaxed);
        assert!(image.view().is_none());
    }
}
