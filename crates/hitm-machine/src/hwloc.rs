//! hwloc's XML, versions 1 and 2, as `lstopo --of xml` writes it.
//!
//! Source: the exports of hwloc 2.9 and the hwloc manual's chapter on XML. Objects are matched to
//! CPUs by their cpusets and not by nesting, because version 2 hangs NUMA nodes beside the tree.
//!
//! Memory and time are linear in the text: at most 16 MiB, no DTD, so no entities to expand, no
//! namespaces, few attributes of an element, and CPU numbers below [`Topology::CPUS_MAX`].
//!
//! Not modelled: I/O devices, memory-side caches, memory without CPUs, and groups other than
//! clusters. A last-level cache that spans NUMA nodes is split, one for each node. What is left out or
//! nested otherwise is noted.

mod shape;
mod turned;

use std::collections::BTreeMap;

use hitm_base::Topology;
use hitm_base::machine::{MachineError, MachineFile};
use roxmltree::{Document, Node, ParsingOptions};

use super::facts::{CacheFacts, CpuFacts, HardwareFacts, UNKNOWN, machine_file};
use turned::{Nodes, turn};

const XML_BYTES_MAX: usize = super::XML_BYTES_MAX as usize;
/// Limit on elements, texts and comments: a 480-CPU machine has about 5,000.
const NODES_MAX: u32 = 500_000;
/// Limit on nested elements: machines have about 20, and the parser recurses.
const DEPTH_MAX: usize = 200;
/// Limit on the attributes of an element, each of which the parser compares with all others: hwloc
/// writes at most some 20.
const ATTRIBUTES_MAX: usize = 200;
/// Text that is expected as a whole.
const EXPORT: &str = "what `lstopo --of xml` writes";

/// A machine out of hwloc's XML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Its model.
    pub file: MachineFile,
    /// Differences between the model's tree and hwloc's, one sentence each.
    pub notes: Vec<String>,
}

/// Builds a model from hwloc XML; `origin` is the text's name in errors. The XML has no latencies:
/// they are those of `like`, or of the nearest preset, and marked as assumed.
pub fn import_hwloc(
    xml: &str,
    origin: &str,
    like: Option<&MachineFile>,
) -> Result<Imported, MachineError> {
    let error = |line, found: String, expected: &str| MachineError {
        origin: origin.into(),
        line,
        key: None,
        found,
        expected: expected.into(),
    };
    if xml.len() > XML_BYTES_MAX {
        let found = format!("{} bytes", xml.len());
        return Err(error(
            None,
            found,
            &format!("at most {XML_BYTES_MAX} bytes of hwloc XML"),
        ));
    }
    if let Some((at, found)) = shape::excess(xml) {
        let line = xml[..at].matches('\n').count() + 1;
        return Err(error(Some(line), found, EXPORT));
    }
    // hwloc names a DTD, which is of no use here and which the parser refuses.
    let body = without_doctype(xml);
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: NODES_MAX,
    };
    let document = Document::parse_with_options(&body, options).map_err(|wrong| {
        let line = wrong.pos().row as usize;
        error(Some(line), format!("no XML ({wrong})"), EXPORT)
    })?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        let found = format!("the element <{}>", root.tag_name().name());
        return Err(error(
            Some(1),
            found,
            "<topology>, as `lstopo --of xml` writes",
        ));
    }
    let mut scan = Scan {
        document: &document,
        origin,
        parts: BTreeMap::new(),
        numbers: Vec::new(),
        nodes: Nodes::default(),
        memory_cache_count: 0,
        notes: Vec::new(),
    };
    let mut facts = scan.facts(root)?;
    facts.source = format!("hwloc XML {origin}");
    Ok(Imported {
        file: machine_file(&facts, like)?,
        notes: scan.notes,
    })
}

/// Blanks the document type in `xml` and keeps lines. Only a declaration without an internal
/// subset: one that defines entities stays, and is refused.
fn without_doctype(xml: &str) -> String {
    let Some(start) = xml.find("<!DOCTYPE") else {
        return xml.to_owned();
    };
    let Some(length) = xml[start..].find('>') else {
        return xml.to_owned();
    };
    let declaration = &xml[start..=start + length];
    if declaration.contains('[') {
        return xml.to_owned();
    }
    let blank: String = declaration
        .chars()
        .map(|c| if c == '\n' { '\n' } else { ' ' })
        .collect();
    format!("{}{blank}{}", &xml[..start], &xml[start + length + 1..])
}

/// The levels of the tree that matter here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Package,
    Die,
    L3,
    L2,
    Cluster,
    Core,
}

struct Scan<'a, 'input> {
    document: &'a Document<'input>,
    origin: &'a str,
    /// For each level and CPU number the number of its part.
    parts: BTreeMap<Level, Vec<u32>>,
    /// CPU numbers, in document order.
    numbers: Vec<u32>,
    nodes: Nodes,
    memory_cache_count: usize,
    notes: Vec<String>,
}

impl Scan<'_, '_> {
    fn facts(&mut self, root: Node<'_, '_>) -> Result<HardwareFacts, MachineError> {
        let mut caches = [CacheFacts::default(); 3];
        let mut vendor = String::new();
        let mut model = String::new();
        let mut part = 0;
        for element in root.descendants().filter(Node::is_element) {
            match element.tag_name().name() {
                "info" => match element.attribute("name") {
                    Some("CPUVendor") => vendor = attribute(&element, "value").into(),
                    Some("CPUModel") => model = attribute(&element, "value").into(),
                    _ => {}
                },
                "object" => {
                    part += 1;
                    self.object(&element, part, &mut caches)?;
                }
                _ => {}
            }
        }
        let mut cpus = self.cpus(root)?;
        let turned = turn(&mut cpus, &self.nodes);
        self.notes = turned.notes;
        if self.memory_cache_count > 0 {
            let count = self.memory_cache_count;
            self.notes
                .push(format!("memory-side caches ({count}) are left out"));
        }
        let model = if model.is_empty() {
            String::new()
        } else {
            format!(" of {model}")
        };
        Ok(HardwareFacts {
            name: file_stem(self.origin),
            description: format!("{} CPUs{model}, imported from hwloc", cpus.len()),
            source: String::new(),
            cpus,
            caches,
            llcs_are_packages: turned.llcs_are_packages,
            clock_khz: None,
            vendor,
        })
    }

    fn object(
        &mut self,
        object: &Node<'_, '_>,
        part: u32,
        caches: &mut [CacheFacts; 3],
    ) -> Result<(), MachineError> {
        let level = match attribute(object, "type") {
            "PU" => {
                let number = self.number(object, "os_index")?;
                if number >= Topology::CPUS_MAX as u64 {
                    return Err(self.error(object, format!("CPU {number}"), "a number below 8192"));
                }
                self.numbers.push(number as u32);
                return Ok(());
            }
            "Package" | "Socket" => Level::Package,
            "Die" => Level::Die,
            "NUMANode" | "Node" => {
                let cpus = self.cpuset(object)?;
                self.nodes.add(part, cpus);
                return Ok(());
            }
            "MemCache" => {
                self.memory_cache_count += 1;
                return Ok(());
            }
            "Core" => Level::Core,
            "Group" if attribute(object, "subtype") == "Cluster" => Level::Cluster,
            "L1Cache" => return self.cache(object, &mut caches[0]),
            "L2Cache" => Level::L2,
            "L3Cache" => Level::L3,
            "Cache" => match attribute(object, "depth") {
                // Type 2 is an instruction cache.
                "1" if attribute(object, "cache_type") != "2" => {
                    return self.cache(object, &mut caches[0]);
                }
                "2" => Level::L2,
                "3" => Level::L3,
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        match level {
            Level::L2 => self.cache(object, &mut caches[1])?,
            Level::L3 => self.cache(object, &mut caches[2])?,
            _ => {}
        }
        for cpu in self.cpuset(object)? {
            let of_cpu = self.parts.entry(level).or_default();
            if of_cpu.len() <= cpu {
                of_cpu.resize(cpu + 1, UNKNOWN);
            }
            of_cpu[cpu] = part;
        }
        Ok(())
    }

    /// Keeps the largest cache of a level: machines of unlike cores are modelled with one size.
    fn cache(&self, object: &Node<'_, '_>, kept: &mut CacheFacts) -> Result<(), MachineError> {
        let size_bytes = self.number(object, "cache_size")?;
        // hwloc writes -1 for fully associative and 0 for unknown.
        let ways = attribute(object, "cache_associativity")
            .parse()
            .unwrap_or(0);
        if size_bytes > kept.size_bytes {
            *kept = CacheFacts { size_bytes, ways };
        }
        Ok(())
    }

    fn cpus(&self, root: Node<'_, '_>) -> Result<Vec<CpuFacts>, MachineError> {
        let mut numbers = self.numbers.clone();
        numbers.sort_unstable();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            let found = format!("two PUs with os_index {}", pair[0]);
            return Err(self.error(&root, found, "each CPU once"));
        }
        if numbers.is_empty() {
            return Err(self.error(&root, "no PU object".into(), "a machine with CPUs"));
        }
        let part = |level: Level, number: u32| {
            let of_cpu = self.parts.get(&level);
            of_cpu
                .and_then(|of_cpu| of_cpu.get(number as usize))
                .copied()
                .unwrap_or(UNKNOWN)
        };
        let core_of = |number| match part(Level::Core, number) {
            UNKNOWN => number, // A CPU without a core object is a core.
            core => core,
        };
        let nearest = self.nodes.nearest();
        let node = |number: u32| nearest.get(&(number as usize)).copied().unwrap_or(UNKNOWN);
        let shared_l2 = self.shared_by_cores(Level::L2, &numbers, &core_of);
        let cpu = |number: &u32| CpuFacts {
            number: *number,
            package: part(Level::Package, *number),
            die: part(Level::Die, *number),
            node: node(*number),
            llc: part(Level::L3, *number),
            cluster: match part(Level::Cluster, *number) {
                // Without clusters in the tree, cores that share an L2 are one.
                UNKNOWN if shared_l2 => part(Level::L2, *number),
                cluster => cluster,
            },
            core: core_of(*number),
        };
        Ok(numbers.iter().map(cpu).collect())
    }

    /// Returns true if any part of `level` holds more than one core.
    fn shared_by_cores(&self, level: Level, numbers: &[u32], core_of: &dyn Fn(u32) -> u32) -> bool {
        let Some(of_cpu) = self.parts.get(&level) else {
            return false;
        };
        let mut first_core = BTreeMap::new();
        numbers
            .iter()
            .any(|number| match of_cpu.get(*number as usize) {
                None | Some(&UNKNOWN) => false,
                Some(part) => {
                    let core = core_of(*number);
                    *first_core.entry(*part).or_insert(core) != core
                }
            })
    }

    /// Parses the CPU numbers of an object: hexadecimal words of 32 bits, most significant first; a
    /// zero word may be left empty.
    fn cpuset(&self, object: &Node<'_, '_>) -> Result<Vec<usize>, MachineError> {
        let text = attribute(object, "cpuset");
        if text.is_empty() {
            return Ok(Vec::new()); // Version 1 writes nothing for memory without CPUs.
        }
        let expected = "hexadecimal words such as \"0x0000000f,0xffffffff\", CPUs below 8192";
        let wrong = || self.error(object, format!("the cpuset {:.80}", text), expected);
        let words: Vec<&str> = text.split(',').collect();
        let mut cpus = Vec::new();
        for (index, word) in words.iter().rev().enumerate() {
            let digits = word.strip_prefix("0x").unwrap_or(word);
            if digits.is_empty() && word.is_empty() {
                continue;
            }
            let bits = u32::from_str_radix(digits, 16).map_err(|_| wrong())?;
            for bit in (0..32).filter(|bit| bits >> bit & 1 == 1) {
                let cpu = index * 32 + bit;
                if cpu >= Topology::CPUS_MAX {
                    return Err(wrong());
                }
                cpus.push(cpu);
            }
        }
        Ok(cpus)
    }

    fn number(&self, object: &Node<'_, '_>, name: &str) -> Result<u64, MachineError> {
        let text = attribute(object, name);
        text.parse().map_err(|_| {
            let kind = attribute(object, "type");
            let found = format!("{name}={:.40} of a {kind:.40} object", format!("{text:?}"));
            self.error(object, found, "a number")
        })
    }

    fn error(&self, node: &Node<'_, '_>, found: String, expected: &str) -> MachineError {
        MachineError {
            origin: self.origin.into(),
            line: Some(self.document.text_pos_at(node.range().start).row as usize),
            key: None,
            found,
            expected: expected.into(),
        }
    }
}

fn attribute<'a>(node: &Node<'a, '_>, name: &str) -> &'a str {
    node.attribute(name).unwrap_or("")
}

fn file_stem(origin: &str) -> String {
    let stem = std::path::Path::new(origin).file_stem();
    stem.map_or_else(
        || "imported".into(),
        |stem| stem.to_string_lossy().into_owned(),
    )
}

#[cfg(test)]
mod tests;
