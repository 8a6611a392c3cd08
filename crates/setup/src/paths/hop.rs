//! One line of NCCL about a connection: `Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA`.

/// How data goes from one rank to another.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// A GPU reads or writes the memory of another.
    P2p,
    /// Through the host's memory.
    Shm,
    /// Over a network.
    Net,
    /// Over a network that reduces.
    CollNet,
}

/// Which end of a connection over a network a line is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The sender's, or both.
    Send,
    /// The receiver's.
    Receive,
}

/// A connection, as one of its ranks said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// From which rank.
    pub from: u32,
    /// To which.
    pub to: u32,
    /// The channel.
    pub channel: u32,
    /// 0 for collectives, 1 for sends and receives.
    pub index: u32,
    /// Which end this is.
    pub end: End,
    /// How data goes.
    pub transport: Transport,
    /// What NCCL says behind the transport: `CUMEM/read`, `direct/direct`; the network's name for a network.
    pub through: String,
    /// NCCL's number of the network card.
    pub card: Option<u32>,
    /// Whether the card reaches the GPU's memory by itself; nothing without a network.
    pub gdr: Option<bool>,
    /// The rank whose GPU stands between this rank and the card (PXN).
    pub pxn: Option<u32>,
}

impl Hop {
    /// Takes a line apart; `None` for any other line. Before 2.9, channels were called rings.
    pub fn parse(text: &str) -> Option<Hop> {
        let rest = text
            .strip_prefix("Channel ")
            .or(text.strip_prefix("Ring "))?;
        let (place, rest) = rest.split_once(" : ")?;
        let (ranks, way) = rest.split_once(" via ")?;
        // As in the source of a page.
        let arrow = if ranks.contains(" -&gt; ") {
            " -&gt; "
        } else {
            " -> "
        };
        let (from, to) = ranks.split_once(arrow)?;
        let rank = |text: &str| {
            let text = text.trim();
            let end = text
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(text.len());
            text[..end].parse().ok()
        };
        let (channel, index) = place.split_once('/').unwrap_or((place, "0"));
        let end = if to.contains("[receive]") {
            End::Receive
        } else {
            End::Send
        };
        let hop = Hop {
            from: rank(from)?,
            to: rank(to)?,
            channel: channel.trim().parse().ok()?,
            index: index.trim().parse().ok()?,
            end,
            transport: Transport::P2p,
            through: String::new(),
            card: None,
            gdr: None,
            pxn: None,
        };
        hop.with_way(way.trim())
    }

    /// The rank that said so: that of its end.
    pub fn speaker(&self) -> u32 {
        match self.end {
            End::Send => self.from,
            End::Receive => self.to,
        }
    }

    /// `P2P/CUMEM/read`, `SHM/direct/direct`, `direct shared memory`, `NET/IB/3(5)/GDRDMA/Shared`.
    fn with_way(self, way: &str) -> Option<Hop> {
        if way.starts_with("direct shared memory") {
            let (transport, through) = (Transport::Shm, "direct".to_owned());
            return Some(Hop {
                transport,
                through,
                ..self
            });
        }
        let (transport, rest) = way.split_once('/').unwrap_or((way, ""));
        let transport = match transport {
            "P2P" => Transport::P2p,
            "SHM" => Transport::Shm,
            "NET" => Transport::Net,
            "COLLNET" => Transport::CollNet,
            _ => return None,
        };
        let hop = Hop {
            transport,
            through: rest.to_owned(),
            ..self
        };
        if transport == Transport::P2p || transport == Transport::Shm {
            return Some(hop);
        }
        // The network's name may have blanks: `AWS Libfabric`.
        let mut parts = rest.split('/');
        let network = parts.next()?.trim().to_owned();
        let card = parts.next().unwrap_or_default();
        let (card, pxn) = match card.split_once('(') {
            Some((card, pxn)) => (card, pxn.trim_end_matches(')').parse().ok()),
            None => (card, None),
        };
        let gdr = parts.any(|part| part.trim().starts_with("GDRDMA"));
        Some(Hop {
            through: network,
            card: card.trim().parse().ok(),
            gdr: Some(gdr),
            pxn,
            ..hop
        })
    }
}

/// The rank and the network of `CollNet 00/0 : 3 [send] via COLLNET/SHARP/0/GDRDMA`; before 2.12, `Coll 00`.
pub fn reducing(text: &str) -> Option<(u32, &str)> {
    let rest = text
        .strip_prefix("CollNet ")
        .or(text.strip_prefix("Coll "))?;
    let (_, rest) = rest.split_once(" : ")?;
    let (rank, way) = rest.split_once(" via COLLNET/")?;
    let rank = rank.split(' ').next()?.parse().ok()?;
    let network = way.split('/').next().filter(|name| !name.is_empty())?;
    Some((rank, network))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(
        text: &str,
    ) -> (
        u32,
        u32,
        Transport,
        String,
        Option<u32>,
        Option<bool>,
        Option<u32>,
    ) {
        let hop = Hop::parse(text).unwrap_or_else(|| panic!("{text}"));
        (
            hop.from,
            hop.to,
            hop.transport,
            hop.through,
            hop.card,
            hop.gdr,
            hop.pxn,
        )
    }

    #[test]
    fn ways_of_all_releases_are_read() {
        use Transport::{Net, P2p, Shm};
        for (text, transport, through, card, gdr, pxn) in [
            (
                "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read",
                P2p,
                "CUMEM/read",
                None,
                None,
                None,
            ),
            (
                "Channel 00/0 : 0[0] -&gt; 1[1] via P2P/CUMEM/read",
                P2p,
                "CUMEM/read",
                None,
                None,
                None,
            ),
            (
                "Channel 00 : 0[1000] -> 1[2000] via P2P/IPC",
                P2p,
                "IPC",
                None,
                None,
                None,
            ),
            (
                "Channel 00 : 0[1000] -> 1[2000] via P2P/indirect/3[b5000]",
                P2p,
                "indirect/3[b5000]",
                None,
                None,
                None,
            ),
            (
                "Ring 00 : 0[0] -> 1[1] via direct shared memory",
                Shm,
                "direct",
                None,
                None,
                None,
            ),
            (
                "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
                Shm,
                "direct/direct",
                None,
                None,
                None,
            ),
            (
                "Channel 01/0 : 0[0] -> 1[1] [send] via NET/IB/3(5)/GDRDMA/Shared",
                Net,
                "IB",
                Some(3),
                Some(true),
                Some(5),
            ),
            (
                "Channel 01/0 : 0[0] -> 1[1] [receive] via NET/Socket/0",
                Net,
                "Socket",
                Some(0),
                Some(false),
                None,
            ),
            (
                "Channel 01/0 : 0[0] -> 1[1] [send] via NET/AWS Libfabric/2/GDRDMA(PCI)",
                Net,
                "AWS Libfabric",
                Some(2),
                Some(true),
                None,
            ),
            (
                "Ring 00 : 0 -> 1 [receive] via NET/IB/0",
                Net,
                "IB",
                Some(0),
                Some(false),
                None,
            ),
        ] {
            assert_eq!(
                seen(text),
                (0, 1, transport, through.to_owned(), card, gdr, pxn),
                "{text}"
            );
        }
        let hop = Hop::parse("Channel 01/1 : 7[0] -> 3[1] [receive] via NET/IB/0").expect("a hop");
        assert_eq!((hop.channel, hop.index, hop.end), (1, 1, End::Receive));
    }

    #[test]
    fn other_and_cut_lines_are_none() {
        let whole = "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM";
        for end in 0..whole.len() - "/CUMEM".len() {
            assert_eq!(Hop::parse(&whole[..end]), None, "{}", &whole[..end]);
        }
        for text in [
            "Channel 00/24 : 0 1 2 3",
            "Channel 99999999999/0 : 0[0] -> 1[1] via P2P/IPC",
            "Channel 00/0 : x[0] -> 1[1] via P2P/IPC",
            "Channel 00/0 : 0[0] -> 1[1] via SOMETHING/0",
            "Ring 00 : 1 -> 0 -> 1",
        ] {
            assert_eq!(Hop::parse(text), None, "{text}");
        }
    }
}
