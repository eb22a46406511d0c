//! The form of what a cache file holds: records of 64 bytes, each with a checksum, the first of which is the
//! header.
//!
//! All numbers are little-endian. Records have one size so that after a damaged one the next is found.
//!
//! | bytes | header | run | refused site, clock, inside |
//! | --- | --- | --- | --- |
//! | 0 | magic (8) | 1 | 2, 3, 4 |
//! | 1 | | kind | reason, kind, 0 |
//! | 2 | | length of the run | 0 |
//! | 3 | | 0 | 0 |
//! | 4..8 | | 0 | 0 |
//! | 8..16 | version (4), 0 (4) | start | 0 |
//! | 16..24 | key (32) | site | site |
//! | 24..56 | | the run's bytes, then 0 | 0 |
//! | 56..64 | checksum | checksum | checksum |
//!
//! The checksum is the first 8 bytes of the blake3 of the file's key and the record's other bytes: a record
//! that was copied from the entry of another file is damaged.

use crate::{
    key::Key,
    run::{Reason, Run, SiteKind, clock_fault, is_sought},
};

/// Bytes of a record.
pub(crate) const RECORD: usize = 64;
const BODY: usize = RECORD - 8;

const MAGIC: [u8; 8] = *b"bissites";

/// Counts up whenever the form changes, or the analysis refuses what it used to allow, or allows what must
/// not be left (4: what asks for chance in Go's programs without symbols; 5: `xsavec`; 6: `lsl`;
/// 7: `fnstenv`).
const VERSION: u32 = 7;

/// What is known of one site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Learned {
    /// It can be patched so.
    Run(Run),
    /// It cannot.
    Refused {
        /// The file's address of the instruction.
        site: u64,
        /// Why.
        reason: Reason,
    },
    /// It reads the time stamp counter, or is one of `chance`, and can be overwritten only by an instruction
    /// of its own length.
    Clock {
        /// The file's address of the instruction.
        site: u64,
        /// What it is.
        kind: SiteKind,
    },
    /// The bytes look like such an instruction, and lie inside of another one.
    Inside {
        /// The file's address of the bytes.
        site: u64,
    },
}

impl Learned {
    /// The file's address of the instruction.
    #[must_use]
    pub fn site(&self) -> u64 {
        match self {
            Self::Run(run) => run.site(),
            Self::Refused { site, .. } | Self::Clock { site, .. } | Self::Inside { site } => *site,
        }
    }
}

fn checksum(key: &Key, body: &[u8]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&key.0);
    hasher.update(body);
    let mut sum = [0; 8];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

fn seal(key: &Key, mut record: [u8; RECORD]) -> [u8; RECORD] {
    let sum = checksum(key, &record[..BODY]);
    record[BODY..].copy_from_slice(&sum);
    record
}

fn is_whole(key: &Key, record: &[u8; RECORD]) -> bool {
    record[BODY..] == checksum(key, &record[..BODY])
}

pub(crate) fn header(key: &Key) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    record[..8].copy_from_slice(&MAGIC);
    record[8..12].copy_from_slice(&VERSION.to_le_bytes());
    record[16..48].copy_from_slice(&key.0);
    seal(key, record)
}

pub(crate) fn encode(key: &Key, learned: &Learned) -> [u8; RECORD] {
    let mut record = [0; RECORD];
    match learned {
        Learned::Run(run) => {
            record[..3].copy_from_slice(&[1, run.kind() as u8, run.len()]);
            record[8..16].copy_from_slice(&run.start().to_le_bytes());
            record[16..24].copy_from_slice(&run.site().to_le_bytes());
            record[24..24 + run.bytes().len()].copy_from_slice(run.bytes());
        }
        Learned::Refused { site, reason } => {
            record[..2].copy_from_slice(&[2, *reason as u8]);
            record[16..24].copy_from_slice(&site.to_le_bytes());
        }
        Learned::Clock { site, kind } => {
            record[..2].copy_from_slice(&[3, *kind as u8]);
            record[16..24].copy_from_slice(&site.to_le_bytes());
        }
        Learned::Inside { site } => {
            record[0] = 4;
            record[16..24].copy_from_slice(&site.to_le_bytes());
        }
    }
    seal(key, record)
}

/// What a record says; none if it is damaged.
pub(crate) fn decode(key: &Key, record: &[u8; RECORD]) -> Option<Learned> {
    if !is_whole(key, record) {
        return None;
    }
    let number = |at: usize| record[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    let site = number(16)?;
    match record[0] {
        1 => {
            let kind = SiteKind::ALL.into_iter().find(|kind| *kind as u8 == record[1])?;
            let bytes = record[24..BODY].get(..usize::from(record[2]))?;
            Run::new(number(8)?, site, kind, bytes).map(Learned::Run)
        }
        2 => {
            let reason = Reason::ALL.into_iter().find(|reason| *reason as u8 == record[1])?;
            Some(Learned::Refused { site, reason })
        }
        3 => {
            let kind = SiteKind::ALL.into_iter().find(|kind| *kind as u8 == record[1])?;
            let has_fault = clock_fault(kind).is_some() || is_sought(kind);
            has_fault.then_some(Learned::Clock { site, kind })
        }
        4 => Some(Learned::Inside { site }),
        _ => None,
    }
}
