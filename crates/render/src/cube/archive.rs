//! The files of a CUBE4 profile, and the tar file that holds them.
//!
//! An index is `CUBEX.INDEX`, the number 1 as u32, which shows the order of bytes, a version u16, the kind of
//! index u8 (1: only nodes that have values), how many nodes u32, and their numbers u32. Data is `CUBEX.DATA`
//! and then, for each node of the index, a value for each location.

use super::Kind;
use std::io::{Result, Write};

const BLOCK: usize = 512;

/// The index of these nodes, which are in order.
pub fn index(nodes: &[usize]) -> Vec<u8> {
    let mut bytes = b"CUBEX.INDEX".to_vec();
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&0u16.to_le_bytes());
    bytes.push(1);
    for number in std::iter::once(nodes.len()).chain(nodes.iter().copied()) {
        bytes.extend_from_slice(&(number as u32).to_le_bytes());
    }
    bytes
}

/// The values of all nodes of an index.
pub fn data(values: impl Iterator<Item = f64>, kind: Kind) -> Vec<u8> {
    let mut bytes = b"CUBEX.DATA".to_vec();
    for value in values {
        bytes.extend_from_slice(&match kind {
            Kind::Seconds | Kind::Share => value.to_le_bytes(),
            Kind::Count | Kind::Bytes => (value as u64).to_le_bytes(),
        });
    }
    bytes
}

/// A tar file.
pub struct Archive<W> {
    out: W,
}

impl<W: Write> Archive<W> {
    /// An empty one.
    pub fn new(out: W) -> Archive<W> {
        Archive { out }
    }

    /// Appends a file. Its name has less than 100 bytes.
    pub fn file(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut head = [0; BLOCK];
        let mut put = |at: usize, text: &str| {
            head[at..at + text.len()].copy_from_slice(text.as_bytes());
        };
        put(0, name);
        put(100, "0000644\0");
        // Nobody's, of no time: equal captures give equal files.
        put(108, "0000000\0");
        put(116, "0000000\0");
        // 8 GiB and more do not fit into eleven octal digits.
        match u32::try_from(content.len() >> 3) {
            Ok(n) if n < 1 << 30 => put(124, &format!("{:011o}\0", content.len())),
            _ => return Err(std::io::Error::other("a file is too large for the profile")),
        }
        put(136, "00000000000\0");
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\x0000");
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.out.write_all(&head)?;
        self.out.write_all(content)?;
        let rest = content.len() % BLOCK;
        if rest != 0 {
            self.out.write_all(&[0; BLOCK][rest..])?;
        }
        Ok(())
    }

    /// Ends it.
    pub fn end(mut self) -> Result<()> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tar_file_has_whole_blocks_and_a_checksum() {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes);
        archive.file("anchor.xml", b"abc").expect("in memory");
        archive.end().expect("in memory");
        assert_eq!(bytes.len(), 4 * BLOCK);
        assert_eq!(&bytes[124..136], b"00000000003\0");
        assert_eq!(&bytes[BLOCK..BLOCK + 4], b"abc\0");
        let mut head = bytes[..BLOCK].to_vec();
        head[148..156].fill(b' ');
        let sum: u32 = head.iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(&bytes[148..156], format!("{sum:06o}\0 ").as_bytes());
    }

    #[test]
    fn an_index_is_that_of_cube() {
        let wanted = b"CUBEX.INDEX\x01\0\0\0\0\0\x01\x02\0\0\0\0\0\0\0\x03\0\0\0";
        assert_eq!(index(&[0, 3]), wanted);
    }
}
