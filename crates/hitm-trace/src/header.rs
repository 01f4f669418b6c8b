//! The head of a file: what it is, and everything needed to make the recording again.
//!
//! ```text
//!  0  magic            8 bytes
//!  8  major version    u16
//! 10  minor version    u16
//! 12  length of JSON   u32
//! 16  CRC-32C          u32, of bytes 0 to 15 and the JSON
//! 20  JSON
//! ```

use std::io::{self, Read};

use hitm_base::{Clock, Cycles};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::record::ADDED;
use crate::wire::u32_at;

/// The first bytes of every file. As in PNG, the first is no ASCII and the last ones do not survive
/// a transfer that takes the file for text.
pub const MAGIC: [u8; 8] = *b"\x89HITM\r\n\x1a";

/// Bytes before the JSON.
const PREFIX_LEN: usize = 20;

/// The most bytes that the JSON may have.
const JSON_LEN_MAX: usize = 4 << 20;

/// The number in the JSON's `schema`.
const SCHEMA: u32 = 1;

/// Version of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Changes when old readers cannot read new files.
    pub major: u16,
    /// Changes when something was added that old readers pass over.
    pub minor: u16,
}

/// The version that this crate writes, and the highest that it knows all of.
pub const VERSION: Version = Version {
    major: 1,
    minor: ADDED.len() as u16,
};

/// Everything that a recording was made with. The working directory and the environment are not
/// stored: they name people and machines.
///
/// Written as JSON: the keys and their order are part of the format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of hitm that recorded.
    pub hitm_version: String,
    /// The recorded program and its arguments.
    pub args: Vec<String>,
    /// Architecture of the recorded program: `x86_64` or `aarch64`.
    pub arch: String,
    /// QEMU's version in its own words; empty when another tool recorded.
    pub qemu_version: String,
    /// Placement of threads on the modelled CPUs, in the words of the command line.
    pub placement: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// Cycles that a thread's clock may run ahead of the slowest.
    #[serde(rename = "window_cycles")]
    pub window: Cycles,
    /// The clock that cycles are counted in.
    #[serde(rename = "clock_khz", with = "khz")]
    pub clock: Clock,
    /// Bytes in a page of the recorded program.
    pub page_size_bytes: u32,
    /// The machine model, as the text of its TOML file.
    pub machine_toml: String,
    /// Events and processes of another tool's samples, when the accesses are such. `None` when
    /// every access to a shared line is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
}

/// Events and processes that accesses were sampled from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sampled {
    /// The sampled events.
    pub events: Vec<SampledEvent>,
    /// The processes; the place of one in this list is in bits 48 to 62 of its addresses.
    pub processes: Vec<SampledProcess>,
    /// Notes on what was left out or must be known, one sentence each.
    pub notes: Vec<String>,
    /// Accesses whose samples say whether the address was found in a TLB.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tlb_known_count: u64,
    /// The part of these that missed it: a page table was walked.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tlb_miss_count: u64,
    /// Lines of running threads, where hitm itself watched them. Of each contended one there are accesses in
    /// proportion to those that watches saw; what they cost is in its bounds alone. Memory that processes share has
    /// the number of its object, as in recordings without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<WatchedRun>,
}

/// A run of threads whose lines were sampled and watched.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchedRun {
    /// Nanoseconds from the first sample to the last.
    pub duration_ns: u64,
    /// CPU time of the threads while they were sampled, in the program itself.
    pub cpu_ns: u64,
    /// CPU time for which a sample stands.
    pub period_ns: u64,
    /// Samples of all threads.
    pub sample_count: u64,
    /// Samples at instructions that may have accessed memory whose address was known.
    pub addressed_count: u64,
    /// Lines that were watched.
    pub watched_count: u64,
    /// Hits of watches.
    pub hit_count: u64,
    /// Those lines that several threads share.
    pub lines: Vec<WatchedLine>,
    /// Places of samples and costs of watches on the host, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// True where nothing could be watched: the lines are those at which several threads were sampled.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_by_samples: bool,
}

/// A line that threads share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WatchedLine {
    /// Its first byte, as accesses have it.
    pub address: u64,
    /// Samples that may stand at its accesses.
    pub sample_count: u64,
    /// Times in a second that the line changes hands, at least: of threads as they run when nobody watches.
    pub change_rate_per_s: u64,
    /// CPU time that it cost at most: that of sample_count.
    pub most_ns: u64,
    /// CPU time that it cost at least: that of change_rate_per_s at the model's price of a hand-over.
    pub least_ns: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(is: &bool) -> bool {
    !is
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// An event that was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SampledEvent {
    /// Its name.
    pub name: String,
    /// Samples that were read, used or not.
    pub sample_count: u64,
    /// Events that these samples stand for.
    pub period_sum: u64,
}

/// A process of which there are samples.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SampledProcess {
    /// Its id.
    pub pid: u32,
    /// Number of earlier processes with this id; its threads' ids may have been used before as
    /// well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub life: u64,
    /// Time at which it was given an id that was used before, in nanoseconds; else 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub began_ns: u64,
    /// Its name.
    pub name: String,
}

/// Reason for which the head of a file cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// Not a recording at all.
    #[error("not a hitm trace: the file begins with [{}], expected [{}]", hex(.found), hex(&MAGIC))]
    Foreign {
        /// The first bytes of the file, at most eight; fewer when the file is shorter.
        found: Vec<u8>,
    },
    /// A recording in a format that this version cannot read.
    #[error(
        "trace format {}.{}, but this hitm reads {}.x: use the hitm that recorded it, or a newer one",
        found.major, found.minor, VERSION.major
    )]
    UnsupportedVersion {
        /// The file's version.
        found: Version,
    },
    /// A header that is larger than any can be.
    #[error("the header at byte 20 claims {found} bytes, at most {max} are possible")]
    TooLarge {
        /// Bytes that it claims or has.
        found: usize,
        /// Bytes that are allowed.
        max: usize,
    },
    /// The file ends within its header.
    #[error("the file ends at byte {found} within its header, expected {expected} bytes of header")]
    Truncated {
        /// Bytes of the file.
        found: usize,
        /// Bytes of the header.
        expected: usize,
    },
    /// The header was damaged.
    #[error(
        "the header (bytes 0 to {end}) is damaged: checksum {found:#010x}, expected {expected:#010x}"
    )]
    Checksum {
        /// First byte after the header.
        end: usize,
        /// The checksum of what is there.
        found: u32,
        /// The checksum that is written there.
        expected: u32,
    },
    /// The header is whole, but says something impossible.
    #[error("the header at byte 20 is not understood: {message}")]
    Content {
        /// The fault and its place.
        message: String,
    },
    /// Reading failed.
    #[error("reading the header failed")]
    Io(#[from] io::Error),
}

/// The header as it is written.
#[derive(Serialize)]
struct Written<'a> {
    schema: u32,
    #[serde(flatten)]
    header: &'a Header,
}

/// Members that are looked at before the others are read.
#[derive(Deserialize)]
struct Checked {
    schema: u32,
    clock_khz: u64,
}

/// A clock as its frequency.
mod khz {
    use hitm_base::Clock;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    pub(super) fn serialize<S: Serializer>(clock: &Clock, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(clock.khz())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Clock, D::Error> {
        u64::deserialize(from).map(Clock::from_khz)
    }
}

impl Header {
    /// The head of a file, or an error when it would be too large.
    pub fn encode(&self) -> Result<Vec<u8>, HeaderError> {
        let written = Written {
            schema: SCHEMA,
            header: self,
        };
        let json = serde_json::to_vec_pretty(&written).map_err(of_json)?;
        if json.len() > JSON_LEN_MAX {
            return Err(HeaderError::TooLarge {
                found: json.len(),
                max: JSON_LEN_MAX,
            });
        }
        let mut out = Vec::with_capacity(PREFIX_LEN + json.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.major.to_le_bytes());
        out.extend_from_slice(&VERSION.minor.to_le_bytes());
        out.extend_from_slice(&(json.len() as u32).to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&out), &json);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&json);
        Ok(out)
    }

    /// Reads a header that somebody else encoded into memory; what follows it is ignored.
    pub fn decode(bytes: &[u8]) -> Result<Header, HeaderError> {
        Header::read(bytes).map(|(_, header, _)| header)
    }

    /// Reads the head of a file; returns its version, what it says, and its length in bytes.
    pub(crate) fn read(mut reader: impl Read) -> Result<(Version, Header, u64), HeaderError> {
        let prefix = read_up_to(&mut reader, PREFIX_LEN)?;
        if prefix.get(..MAGIC.len()) != Some(MAGIC.as_slice()) {
            let found = prefix[..prefix.len().min(MAGIC.len())].to_vec();
            return Err(HeaderError::Foreign { found });
        }
        if prefix.len() < PREFIX_LEN {
            return Err(HeaderError::Truncated {
                found: prefix.len(),
                expected: PREFIX_LEN,
            });
        }
        let version = Version {
            major: u16::from_le_bytes([prefix[8], prefix[9]]),
            minor: u16::from_le_bytes([prefix[10], prefix[11]]),
        };
        if version.major != VERSION.major {
            return Err(HeaderError::UnsupportedVersion { found: version });
        }
        let json_len = u32_at(&prefix, 12) as usize;
        if json_len > JSON_LEN_MAX {
            return Err(HeaderError::TooLarge {
                found: json_len,
                max: JSON_LEN_MAX,
            });
        }
        let json = read_up_to(&mut reader, json_len)?;
        let end = PREFIX_LEN + json_len;
        if json.len() < json_len {
            return Err(HeaderError::Truncated {
                found: PREFIX_LEN + json.len(),
                expected: end,
            });
        }
        let found = crc32c::crc32c_append(crc32c::crc32c(&prefix[..16]), &json);
        let expected = u32_at(&prefix, 16);
        if found != expected {
            return Err(HeaderError::Checksum {
                end,
                found,
                expected,
            });
        }
        Ok((version, parse(&json)?, end as u64))
    }
}

fn parse(json: &[u8]) -> Result<Header, HeaderError> {
    let Checked { schema, clock_khz } = serde_json::from_slice(json).map_err(of_json)?;
    if schema != SCHEMA {
        return Err(content(format!("schema {schema}, expected {SCHEMA}")));
    }
    if clock_khz == 0 {
        let message = "clock_khz is 0, a clock needs a frequency";
        return Err(content(message.to_owned()));
    }
    serde_json::from_slice(json).map_err(of_json)
}

fn of_json(error: serde_json::Error) -> HeaderError {
    content(error.to_string())
}

fn content(message: String) -> HeaderError {
    HeaderError::Content { message }
}

/// `len` bytes, or what there is of them. `len` has been checked against a limit.
fn read_up_to(reader: &mut impl Read, len: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(len as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Bytes as people write them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}
