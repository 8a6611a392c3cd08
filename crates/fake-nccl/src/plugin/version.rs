//! Releases of NCCL.

/// A simulated NCCL release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u32);

impl Version {
    /// Reads `2.28.9`.
    pub fn parse(text: &str) -> Option<Version> {
        let mut parts = text.split('.').map(|p| p.parse::<u32>().ok());
        let number = parts.next()?? * 10000 + parts.next()?? * 100 + parts.next()??;
        parts.next().is_none().then_some(Version(number))
    }

    /// The newest ABI it looks up.
    pub fn native_abi(self) -> Option<u8> {
        nccl_abi::release::native_abi(self.0)
    }

    /// The releases that can be simulated, as text.
    pub fn known() -> String {
        let all = nccl_abi::release::ALL.map(|r| Version(r.version).to_string());
        all.join(" ")
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{}.{}",
            self.0 / 10000,
            self.0 / 100 % 100,
            self.0 % 100
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_reads_and_prints() {
        assert_eq!(Version::parse("2.28.9"), Some(Version(22809)));
        assert_eq!(Version(23203).to_string(), "2.32.3");
        assert_eq!(Version::parse("2.28"), None);
        assert_eq!(Version::parse("2.28.9.1"), None);
    }
}
