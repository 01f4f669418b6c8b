//! An assembler for BTF: records are added one by one, with any numbers in them.

/// BTF under construction. Ids begin at 1, or where the base ends.
#[derive(Debug)]
pub struct Assembler {
    big_endian: bool,
    types: Vec<u8>,
    strings: Vec<u8>,
    next_id: u32,
    first_string: u32,
}

/// The numbers of the kinds.
pub mod kind {
    #![expect(missing_docs, reason = "the names are the kernel's")]
    pub const INT: u32 = 1;
    pub const PTR: u32 = 2;
    pub const ARRAY: u32 = 3;
    pub const STRUCT: u32 = 4;
    pub const UNION: u32 = 5;
    pub const ENUM: u32 = 6;
    pub const FWD: u32 = 7;
    pub const TYPEDEF: u32 = 8;
    pub const VOLATILE: u32 = 9;
    pub const CONST: u32 = 10;
    pub const RESTRICT: u32 = 11;
    pub const FUNC: u32 = 12;
    pub const FUNC_PROTO: u32 = 13;
    pub const VAR: u32 = 14;
    pub const DATASEC: u32 = 15;
    pub const FLOAT: u32 = 16;
    pub const DECL_TAG: u32 = 17;
    pub const TYPE_TAG: u32 = 18;
    pub const ENUM64: u32 = 19;
}

/// Kind of a record, with what stands in the same word.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// Its kind.
    pub kind: u32,
    /// The kind's flag.
    pub flag: bool,
    /// Number of parts.
    pub parts: u32,
}

impl Info {
    /// A kind with its flag, and a number of parts.
    pub const fn new(kind: u32, flag: bool, parts: u32) -> Info {
        Info { kind, flag, parts }
    }

    /// A kind without flag and parts.
    pub const fn of(kind: u32) -> Info {
        Info::new(kind, false, 0)
    }
}

impl Assembler {
    /// BTF without types, of a byte order.
    pub fn new(big_endian: bool) -> Assembler {
        Assembler {
            big_endian,
            types: Vec::new(),
            strings: vec![0],
            next_id: 1,
            first_string: 0,
        }
    }

    /// BTF that extends a base.
    pub fn split(base: &Assembler) -> Assembler {
        Assembler {
            big_endian: base.big_endian,
            types: Vec::new(),
            strings: Vec::new(),
            next_id: base.next_id,
            first_string: base.first_string + base.strings.len() as u32,
        }
    }

    fn word(&self, value: u32) -> [u8; 4] {
        match self.big_endian {
            true => value.to_be_bytes(),
            false => value.to_le_bytes(),
        }
    }

    /// The offset of a string; 0 for the empty one.
    pub fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let at = self.first_string + self.strings.len() as u32;
        self.strings.extend(text.bytes().chain([0]));
        at
    }

    /// Any record: its name, kind, size or type, and words that follow.
    pub fn record(&mut self, name: &str, info: Info, size_or_type: u32, extra: &[u32]) -> u32 {
        let name = self.string(name);
        let info = u32::from(info.flag) << 31 | info.kind << 24 | info.parts;
        for word in [name, info, size_or_type].iter().chain(extra) {
            let bytes = self.word(*word);
            self.types.extend(bytes);
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// A signed integer of `size` bytes. Returns its id, as the other functions do.
    pub fn int(&mut self, name: &str, size: u32) -> u32 {
        self.record(name, Info::of(kind::INT), size, &[size * 8])
    }

    /// A record that has a kind, a name and the id of another type.
    pub fn of(&mut self, kind: u32, name: &str, target: u32) -> u32 {
        self.record(name, Info::of(kind), target, &[])
    }

    /// An array of `count` elements.
    pub fn array(&mut self, element: u32, count: u32) -> u32 {
        self.record("", Info::of(kind::ARRAY), 0, &[element, 1, count])
    }

    /// A structure of members (name, type, bit offset).
    pub fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        self.aggregate(name, Info::of(kind::STRUCT), size, members)
    }

    /// A structure or union. With the flag the upper 8 bits of an offset are a bit-field's size.
    pub fn aggregate(
        &mut self,
        name: &str,
        info: Info,
        size: u32,
        members: &[(&str, u32, u32)],
    ) -> u32 {
        let mut extra = Vec::new();
        for (name, type_id, place) in members {
            extra.extend([self.string(name), *type_id, *place]);
        }
        let parts = members.len() as u32;
        self.record(name, Info { parts, ..info }, size, &extra)
    }

    /// A function and its prototype: the type that it returns, 0 for none, and those of its parameters.
    pub fn function(&mut self, name: &str, result: u32, parameters: &[u32]) -> u32 {
        let words: Vec<u32> = parameters.iter().flat_map(|of| [0, *of]).collect();
        let info = Info::new(kind::FUNC_PROTO, false, parameters.len() as u32);
        let prototype = self.record("", info, result, &words);
        self.of(kind::FUNC, name, prototype)
    }

    /// The id that the next record gets.
    pub fn next_id(&self) -> u32 {
        self.next_id
    }

    /// The finished bytes.
    pub fn finish(&self) -> Vec<u8> {
        let magic: u16 = 0xeb9f;
        let mut bytes = match self.big_endian {
            true => magic.to_be_bytes().to_vec(),
            false => magic.to_le_bytes().to_vec(),
        };
        bytes.extend([1, 0]);
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        for word in [24, 0, types, types, strings] {
            bytes.extend(self.word(word));
        }
        bytes.extend(&self.types);
        bytes.extend(&self.strings);
        bytes
    }
}
