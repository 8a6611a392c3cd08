//! Says in the capture which plugin runs behind ours ([`crate::chain`]).
//!
//! ```text
//! ncclscope chain name=Profiler abi=5 events=Coll,KernelCh path=/opt/nccl/libnccl-profiler-inspector.so
//! ```

use super::Writer;
use capture::block::BlockKind;

impl Writer {
    /// Stages the line, once it is known, and again if it changes.
    pub(super) fn write_chain(&mut self) {
        let line = self.recorder.chain.as_ref().and_then(|chain| chain.line());
        let Some(line) = line.filter(|line| *line != self.chain) else {
            return;
        };
        let whole = format!("ncclscope chain {line}\n");
        if self.block(BlockKind::Setup, |out| out.extend(whole.as_bytes())) {
            self.chain = line;
        }
    }
}
