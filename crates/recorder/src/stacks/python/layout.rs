//! Where the fields of CPython's structs are, by release: written down here, or as the interpreter says.

use super::super::lines::Lines;
use super::{BYTES, BYTES_LENGTH, TEXT_LENGTH, TEXT_STATE, TYPE};
use capture::stacks::Why;

/// Offsets in the interpreter's structs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// In a thread's state: its newest frame, or (3.11 and 3.12) what points to that.
    pub(super) top: usize,
    /// In what `top` points to: the newest frame.
    pub(super) through: Option<usize>,
    /// In a frame: the one that called it.
    pub(super) back: usize,
    /// In a frame: its code.
    pub(super) code: usize,
    /// In a frame: where it is.
    pub(super) position: Position,
    /// In a frame: who owns it. Values from [`NO_FUNCTION`] on are no function's.
    pub(super) owner: Option<usize>,
    pub(super) file: usize,
    pub(super) function: usize,
    pub(super) line_table: usize,
    pub(super) first_line: usize,
    /// In code, from 3.12 on: a number that no other code of the process has, or 0.
    pub(super) version: Option<usize>,
    /// The size of a text's header, if it is ASCII and if it is not.
    pub(super) text: [usize; 2],
    pub(super) lines: Lines,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    /// A number, in units of so many bytes.
    Index { at: usize, unit: u32 },
    /// A pointer to the instruction, and where the first one is in the code.
    Pointer { at: usize, first: usize },
}

/// The releases whose structs are written down here. They were run as 3.9.18, 3.10.13, 3.11.2, 3.11.7 and
/// 3.12.1.
pub(super) fn written_down(minor: u32) -> Option<Layout> {
    let older = Layout {
        top: 24,
        through: None,
        back: 24,
        code: 32,
        position: Position::Index { at: 104, unit: 1 },
        owner: None,
        file: 104,
        function: 112,
        line_table: 120,
        first_line: 40,
        version: None,
        text: [48, 72],
        lines: Lines::Lnotab,
    };
    let newer = Layout {
        top: 56,
        through: Some(8),
        back: 48,
        code: 32,
        position: Position::Pointer { at: 56, first: 184 },
        owner: Some(69),
        file: 112,
        function: 128,
        line_table: 136,
        first_line: 72,
        version: None,
        text: [48, 72],
        lines: Lines::Locations,
    };
    Some(match minor {
        9 => older,
        10 => Layout {
            position: Position::Index { at: 96, unit: 2 },
            lines: Lines::Ranges,
            ..older
        },
        11 => newer,
        12 => Layout {
            through: Some(0),
            back: 8,
            code: 0,
            position: Position::Pointer { at: 56, first: 192 },
            owner: Some(70),
            first_line: 68,
            version: Some(92),
            text: [40, 56],
            ..newer
        },
        _ => return None,
    })
}

/// Where `_Py_DebugOffsets` of a release has which offset. They were run as 3.13.0, 3.13.18, 3.14.10 and
/// 3.15.2.
pub(super) struct Described {
    pub(super) thread: usize,
    pub(super) frame: usize,
    pub(super) code: usize,
    pub(super) object: usize,
    pub(super) bytes: usize,
    pub(super) text: usize,
}

pub(super) fn described(minor: u32) -> Option<Described> {
    Some(match minor {
        13 => Described {
            thread: 184,
            frame: 232,
            code: 280,
            object: 360,
            bytes: 520,
            text: 544,
        },
        14 => Described {
            thread: 208,
            frame: 256,
            code: 320,
            object: 408,
            bytes: 600,
            text: 624,
        },
        15 => Described {
            thread: 208,
            frame: 320,
            code: 384,
            object: 472,
            bytes: 696,
            text: 720,
        },
        _ => return None,
    })
}

/// Bytes of `_Py_DebugOffsets` that are read.
pub(super) const DESCRIPTION: usize = 768;

/// The layout that an interpreter describes.
pub(super) fn self_described(version: u32, bytes: &[u8; DESCRIPTION]) -> Result<Layout, Why> {
    let word = |at: usize| {
        let bytes = bytes[at..at + 8].try_into().unwrap_or_default();
        u64::from_le_bytes(bytes)
    };
    // An offset that can be one.
    let offset = |at: usize| match word(at) {
        offset @ 0..=4096 => Ok(offset as usize),
        _ => Err(Why::Layout),
    };
    let places = described(version >> 16 & 0xff).ok_or(Why::Version)?;
    if bytes[..8] != *b"xdebugpy" || word(8) != u64::from(version) {
        return Err(Why::Layout);
    }
    if word(16) != 0 {
        return Err(Why::FreeThreaded);
    }
    // What no release has changed yet is not asked for again at each use.
    let fixed = [
        (places.object, TYPE),
        (places.bytes, BYTES_LENGTH),
        (places.bytes + 8, BYTES),
        (places.text, TEXT_STATE),
        (places.text + 8, TEXT_LENGTH),
    ];
    for (at, expected) in fixed {
        if offset(at)? != expected {
            return Err(Why::Layout);
        }
    }
    let ascii = offset(places.text + 16)?;
    Ok(Layout {
        top: offset(places.thread)?,
        through: None,
        back: offset(places.frame)?,
        code: offset(places.frame + 8)?,
        position: Position::Pointer {
            at: offset(places.frame + 16)?,
            first: offset(places.code + 64)?,
        },
        owner: Some(offset(places.frame + 32)?),
        file: offset(places.code)?,
        function: offset(places.code + 16)?,
        line_table: offset(places.code + 24)?,
        first_line: offset(places.code + 32)?,
        // It is right before the names of variables, and the description does not have it.
        version: Some(
            offset(places.code + 48)?
                .checked_sub(4)
                .ok_or(Why::Layout)?,
        ),
        text: [ascii, ascii + 16],
        lines: Lines::Locations,
    })
}
