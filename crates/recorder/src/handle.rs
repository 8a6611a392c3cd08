//! Handles and contexts: names that NCCL carries for us and that are looked up, never followed.
//!
//! ```text
//! bits 63..46 generation │ 45..28 slot │ 27..20 channel │ 19..16 kind │ 15..0 salt
//! bits 63..36 ticket │ 35..20 communicator slot, for what names a group
//! ```
//!
//! All ranks of a job run the same allocator, so another process's handle could name a row of ours (PXN
//! passes such handles). The salt, drawn at init, keeps them apart. Kind and salt lie side by side so that
//! one comparison asks for both, and a row's generation lies where it lies in the row's word.

/// What a handle names. No kind is 0, so no handle is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HandleKind {
    /// A communicator's context.
    Context = 1,
    /// A row, from CollApi or P2pApi.
    Api = 2,
    /// A row, from Coll, P2p or CeColl.
    Task = 3,
    /// A row and a channel of it.
    KernelCh = 4,
    /// An entry of the table of open network operations.
    ProxyOp = 5,
    /// A step of such an entry.
    ProxyStep = 6,
    /// A group, of this communicator.
    GroupApi = 7,
    /// A captured call.
    Template = 8,
    /// A kernel launch of a group, of this communicator.
    Launch = 9,
    /// A plan (Group event) of this communicator.
    Plan = 10,
    /// A call that is only counted, and its children.
    Rowless = 11,
    /// Nothing: an event that is not recorded.
    Ignored = 12,
    /// A row, a channel of it, and a phase of its kernel there.
    Phase = 13,
    /// An event that only the plugin behind ours asked for.
    Chained = 14,
}

/// A handle with the salt taken out: if NCCL handed back one of ours, its lowest 16 bits are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u64);

/// The slot in the context of a communicator that found none.
pub const NO_SLOT: u32 = (1 << SLOT_BITS) - 1;
/// Bits of a slot.
pub const SLOT_BITS: u32 = 18;
/// Channels of a kernel at most.
const CHANNELS: u8 = 64;
/// The highest number of a phase that a handle can have.
const PHASES: u8 = 3;
const KIND: u32 = 16;
const CHANNEL: u32 = 20;
const SLOT: u32 = 28;
const GENERATION: u32 = SLOT + SLOT_BITS;
const TICKET: u32 = 36;

impl Handle {
    /// Names an entry of a table; of the generation, the lowest 18 bits.
    #[inline]
    pub fn new(kind: HandleKind, channel: u8, slot: u32, generation: u64) -> Handle {
        let slot = u64::from(slot & ((1 << SLOT_BITS) - 1));
        Handle(
            generation << GENERATION
                | slot << SLOT
                | u64::from(channel) << CHANNEL
                | (kind as u64) << KIND,
        )
    }

    /// Names a group of a communicator by its ticket, of which the lowest 28 bits count.
    #[inline]
    pub fn of_ticket(kind: HandleKind, comm: u16, ticket: u64) -> Handle {
        Handle(ticket << TICKET | u64::from(comm) << CHANNEL | (kind as u64) << KIND)
    }

    /// Names the same entry as something else.
    #[inline]
    pub fn renamed(self, kind: HandleKind, channel: u8) -> Handle {
        Handle(self.0 & !((1 << SLOT) - 1) | u64::from(channel) << CHANNEL | (kind as u64) << KIND)
    }

    /// Names a phase on the channel that this names. NCCL has 64 channels and 3 phases, so both fit into the
    /// channel's bits.
    #[inline]
    pub fn phase(self, number: u8) -> Handle {
        let both =
            self.channel() & (CHANNELS - 1) | number.min(PHASES) << CHANNELS.trailing_zeros();
        self.renamed(HandleKind::Phase, both)
    }

    /// Which phase it is, of what names one.
    #[inline]
    pub fn phase_number(self) -> u8 {
        self.channel() >> CHANNELS.trailing_zeros()
    }

    /// What NCCL handed back.
    #[inline]
    pub fn read(given: u64, salt: u16) -> Handle {
        Handle(given ^ u64::from(salt))
    }

    /// As NCCL carries it.
    #[inline]
    pub fn give(self, salt: u16) -> u64 {
        self.0 | u64::from(salt)
    }

    /// All its bits but the salt; of our own never 0.
    #[inline]
    pub fn raw(self) -> u64 {
        self.0
    }

    /// Whether this process gave it out, and for that.
    #[inline]
    pub fn is(self, kind: HandleKind) -> bool {
        self.0 as u32 & ((1 << CHANNEL) - 1) == (kind as u32) << KIND
    }

    /// What it names; `None` when this process did not give it out.
    #[inline]
    pub fn kind(self) -> Option<HandleKind> {
        if self.0 as u16 != 0 {
            return None;
        }
        Some(match self.bits() {
            1 => HandleKind::Context,
            2 => HandleKind::Api,
            3 => HandleKind::Task,
            4 => HandleKind::KernelCh,
            5 => HandleKind::ProxyOp,
            6 => HandleKind::ProxyStep,
            7 => HandleKind::GroupApi,
            8 => HandleKind::Template,
            9 => HandleKind::Launch,
            10 => HandleKind::Plan,
            11 => HandleKind::Rowless,
            12 => HandleKind::Ignored,
            13 => HandleKind::Phase,
            14 => HandleKind::Chained,
            _ => return None,
        })
    }

    /// The bits of its kind, if it is ours.
    #[inline]
    pub fn bits(self) -> usize {
        (self.0 >> KIND) as usize & 0xf
    }

    /// The same handle, with the bits of its kind as a number that is known when compiling.
    ///
    /// `bits` are the handle's.
    #[inline(always)]
    pub fn of_bits(self, bits: usize) -> Handle {
        debug_assert_eq!(self.bits(), bits);
        Handle(self.0 & !(0xf << KIND) | (bits as u64) << KIND)
    }

    #[inline]
    pub fn channel(self) -> u8 {
        (self.0 >> CHANNEL) as u8
    }

    #[inline]
    pub fn slot(self) -> u32 {
        (self.0 >> SLOT) as u32 & ((1 << SLOT_BITS) - 1)
    }

    #[inline]
    pub fn generation(self) -> u32 {
        (self.0 >> GENERATION) as u32
    }

    /// The communicator's slot, of what names a group.
    #[inline]
    pub fn comm(self) -> u16 {
        (self.0 >> CHANNEL) as u16
    }

    /// The lowest 28 bits of a group's ticket.
    #[inline]
    pub fn ticket(self) -> u64 {
        self.0 >> TICKET
    }

    /// Whether it names the group of this ticket.
    #[inline]
    pub fn is_ticket(self, ticket: u64) -> bool {
        (self.0 >> TICKET ^ ticket) << TICKET == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: u16 = 0xbeef;

    #[test]
    fn every_kind_round_trips_and_is_never_null() {
        let mut kinds = 0;
        for bits in 0..16u64 {
            let Some(kind) = Handle::read(bits << KIND | u64::from(SALT), SALT).kind() else {
                continue;
            };
            kinds += 1;
            assert_eq!(kind as u64, bits);
            let given = Handle::new(kind, 7, 9, (1 << 18) + 5).give(SALT);
            let back = Handle::read(given, SALT);
            assert!(back.is(kind));
            assert_eq!(
                (back.kind(), back.channel(), back.slot(), back.generation()),
                (Some(kind), 7, 9, 5)
            );
            assert_ne!(Handle::new(kind, 0, 0, 0).give(1), 0);
            let renamed = back.renamed(HandleKind::Phase, 1);
            assert_eq!(renamed, Handle::new(HandleKind::Phase, 1, 9, 5));
        }
        assert_eq!(kinds, 14);
    }

    #[test]
    fn a_group_is_named_by_its_ticket() {
        let ticket = (1 << 28) - 1;
        let group = Handle::read(
            Handle::of_ticket(HandleKind::GroupApi, 65_534, ticket).give(SALT),
            SALT,
        );
        assert!(
            group.is(HandleKind::GroupApi)
                && group.is_ticket(ticket)
                && !group.is_ticket(ticket - 1)
        );
        assert_eq!((group.ticket(), group.comm()), (ticket, 65_534));
        assert!(group.is_ticket(ticket + (1 << 28)));
    }

    #[test]
    fn a_phase_keeps_its_channel() {
        let kernel = Handle::new(HandleKind::KernelCh, 63, 9, 5);
        let phases: Vec<Handle> = (0..3).map(|number| kernel.phase(number)).collect();
        assert_eq!(
            phases.iter().map(|p| p.phase_number()).collect::<Vec<_>>(),
            [0, 1, 2]
        );
        assert_ne!(
            phases[0],
            Handle::new(HandleKind::KernelCh, 62, 9, 5).phase(0)
        );
        assert!(phases.iter().all(|p| p.is(HandleKind::Phase)));
        assert_eq!((phases[2].slot(), phases[2].generation()), (9, 5));
        // Numbers that no NCCL has fit, too.
        assert_eq!(kernel.phase(200).phase_number(), 3);
    }

    #[test]
    fn another_processes_handle_is_refused() {
        let foreign = Handle::read(Handle::new(HandleKind::Api, 1, 2, 3).give(0x1235), 0x1237);
        assert_eq!(foreign.kind(), None);
        assert!(!foreign.is(HandleKind::Api));
        assert_eq!(Handle::read(0, 1).kind(), None);
        assert_eq!(Handle::read(u64::MAX, 0xffff).kind(), None);
    }
}
