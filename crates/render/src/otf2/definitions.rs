//! The global definitions of an archive.
//!
//! Rule: a definition comes after those that it refers to.

use super::format::{self, definition, kind, Chunks, Fields};
use super::{time, Archive, ACCELERATOR_CLASS, ATTRIBUTES, COMM_GROUP, COMM_LOCATIONS, CUDA};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Result};
use std::path::Path;

/// Longest text, bytes: only damage makes longer names.
const LONGEST: usize = 1 << 16;

impl Archive<'_, '_> {
    /// Writes the global definitions, and returns how many.
    pub(super) fn define(&mut self, path: &Path) -> Result<u64> {
        let capture = self.timeline.capture();
        let hosts = self.hosts();
        let (job, cuda, all) = (
            self.names.text("job"),
            self.names.text("CUDA"),
            self.names.text("GPUs"),
        );
        let node = self.names.text("node");
        let template = self.names.text("NCCL communicator ${id}");
        let hosts: Vec<u64> = hosts
            .into_iter()
            .map(|host| self.names.text(host))
            .collect();
        let attributes = ATTRIBUTES.map(|(name, _)| self.names.text(name));
        let mut communicators: BTreeMap<u32, (u64, Vec<u64>)> = BTreeMap::new();
        for ((communicator, _), gpu) in &self.rank_of {
            let of = communicators.entry(*communicator).or_insert_with(|| {
                let known = capture.communicators.get(*communicator as usize);
                let name = known.map_or("?", |of| of.name.as_ref().unwrap_or(&of.id));
                (self.names.text(name), Vec::new())
            });
            of.1.push(*gpu);
        }
        let mut count = 0;
        let file = BufWriter::new(File::create(path)?);
        let mut chunks = Chunks::new(file, format::DEFINITIONS);
        let mut put = |kind: u8, fields: Fields| {
            count += 1;
            chunks.define(kind, &fields)
        };
        let new = Fields::default;
        let from = if self.from == i64::MAX {
            0
        } else {
            time(self.from)
        };
        let length = time(self.until).saturating_sub(from);
        let clock = new()
            .number(1_000_000_000u64)
            .number(from)
            .number(length)
            .number(from);
        put(definition::CLOCK, clock)?;
        let mut texts: Vec<(&String, &u64)> = self.names.texts.iter().collect();
        texts.sort_unstable_by_key(|(_, number)| **number);
        for (text, number) in texts {
            // A chunk holds each of them.
            let end = text.char_indices().find(|(at, _)| *at > LONGEST);
            let text = end.map_or(text.as_str(), |(end, _)| &text[..end]);
            put(definition::STRING, new().number(*number).text(text))?;
        }
        put(
            definition::PARADIGM,
            new().byte(CUDA).number(cuda).byte(ACCELERATOR_CLASS),
        )?;
        let template = new().byte(CUDA).byte(0).byte(kind::STRING).number(template);
        put(definition::PARADIGM_PROPERTY, template)?;
        for (number, (name, (_, is_text))) in (0u64..).zip(attributes.iter().zip(ATTRIBUTES)) {
            let kind = if is_text { kind::STRING } else { kind::UINT64 };
            put(
                definition::ATTRIBUTE,
                new().number(number).number(*name).byte(kind).number(0u64),
            )?;
        }
        put(
            definition::SYSTEM_TREE_NODE,
            new().number(0u64).number(job).number(job).maybe(None),
        )?;
        for (number, host) in (1u64..).zip(&hosts) {
            let fields = new().number(number).number(*host).number(node).number(0u64);
            put(definition::SYSTEM_TREE_NODE, fields)?;
            // `OTF2_SYSTEM_TREE_DOMAIN_SHARED_MEMORY`.
            put(
                definition::SYSTEM_TREE_NODE_DOMAIN,
                new().number(number).byte(1),
            )?;
        }
        for (number, group) in (0u64..).zip(&self.groups) {
            let fields = new().number(number).number(group.name).byte(group.kind);
            put(
                definition::LOCATION_GROUP,
                fields.number(group.node).maybe(group.creator),
            )?;
        }
        for (number, of) in (0u64..).zip(&self.locations) {
            let fields = new().number(number).number(of.name).byte(of.kind);
            put(
                definition::LOCATION,
                fields.number(of.events).number(of.group),
            )?;
        }
        let mut regions: Vec<_> = self.names.regions.iter().collect();
        regions.sort_unstable_by_key(|(_, number)| **number);
        for ((name, role), number) in regions {
            // Name, description, an old kind, source file and lines; then the canonical name.
            let fields = new().number(*number).number(*name).number(0u64).byte(0);
            let fields = fields.number(0u64).number(0u64).number(0u64).number(*name);
            put(
                definition::REGION,
                fields.byte(*role).byte(CUDA).number(0u64),
            )?;
        }
        let group = |number: u64, name: u64, members: &[u64], kind: u8| {
            let fields = new()
                .number(number)
                .number(name)
                .byte(0)
                .number(members.len() as u64);
            let fields = members
                .iter()
                .fold(fields, |fields, member| fields.number(*member));
            fields.byte(kind).byte(CUDA).number(0u64)
        };
        put(definition::GROUP, group(0, all, &self.gpus, COMM_LOCATIONS))?;
        for (at, (name, ranks)) in (0u64..).zip(communicators.values()) {
            let number = at + 1;
            put(definition::GROUP, group(number, *name, ranks, COMM_GROUP))?;
            // In the order of `comms`: readers expect numbers without a gap.
            let fields = new().number(at).number(*name).number(number);
            put(definition::COMM, fields.maybe(None).number(0u64))?;
        }
        for (number, of) in (0u64..).zip(&self.metrics) {
            // `OTF2_METRIC_TYPE_OTHER`, `ABSOLUTE_POINT`, decimal, exponent 0.
            let fields = new()
                .number(number)
                .number(of.name)
                .number(0u64)
                .byte(0)
                .byte(0x11);
            let fields = fields.byte(of.kind).byte(1).number(0u64).number(of.unit);
            put(definition::METRIC_MEMBER, fields)?;
            // One member; asynchronous; recorded on the host.
            let fields = new().number(number).byte(1).number(number).byte(2).byte(2);
            put(definition::METRIC_CLASS, fields)?;
        }
        chunks.end()?;
        Ok(count)
    }
}
