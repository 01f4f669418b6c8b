//! Variables that live at fixed addresses: globals, static members, statics of functions.
//!
//! One pass over all entries finds them; names and types are read on demand. Variables in
//! thread-local storage have no fixed address and are left out.

use gimli::{AttributeValue, Expression, Operation};

use super::die::{Die, Walker, value_of};
use super::sources::View;
use super::units::{DieRef, Slice, Unit};
use crate::demangle::demangle;

/// A variable's place, and where to read the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) address: u64,
    pub(crate) die: DieRef,
    scope: Option<u32>,
}

impl Variable {
    /// Returns true if the entry lies in a namespace, type or function.
    pub(crate) const fn has_scope(&self) -> bool {
        self.scope.is_some()
    }
}

/// A namespace, type or function around a variable.
#[derive(Debug, Clone, Copy)]
struct Scope {
    die: DieRef,
    parent: Option<u32>,
}

/// All variables with a fixed address, sorted by it.
#[derive(Debug, Default)]
pub(crate) struct VariableIndex {
    variables: Vec<Variable>,
    scopes: Vec<Scope>,
}

/// A scope on the way down to the current entry. It gets a row in the index only once a variable is
/// found below it.
struct OpenScope {
    depth: isize,
    die: DieRef,
    row: Option<u32>,
}

impl VariableIndex {
    /// Finds the variables of all units. `is_loaded` says which addresses belong to the program:
    /// linkers leave others behind for what they discard. `problems` gets a line per damaged unit.
    pub(crate) fn read(
        view: &View<'_>,
        is_loaded: impl Fn(u64) -> bool,
        problems: &mut Vec<String>,
    ) -> VariableIndex {
        let mut index = VariableIndex::default();
        for number in view.file.own_units() {
            if view.file.in_supplement(number) {
                continue;
            }
            if let Err(error) = index.read_unit(view, number, &is_loaded) {
                problems.push(format!(
                    "variables after a damaged entry of unit {number} left out: {error}"
                ));
            }
        }
        index.variables.sort_by_key(|variable| {
            // A variable of an inlined function is listed for every copy: one with a scope is best.
            (variable.address, variable.scope.is_none(), variable.die)
        });
        index.variables.dedup_by_key(|variable| variable.address);
        index.variables.shrink_to_fit();
        index
    }

    /// The variable that begins last at or before the address.
    pub(crate) fn nearest(&self, address: u64) -> Option<Variable> {
        let after = self.variables.partition_point(|v| v.address <= address);
        self.variables[..after].last().copied()
    }

    /// Start of the next variable after the address.
    pub(crate) fn next_start(&self, address: u64) -> Option<u64> {
        let after = self.variables.partition_point(|v| v.address <= address);
        self.variables.get(after).map(|variable| variable.address)
    }

    fn read_unit(
        &mut self,
        view: &View<'_>,
        number: u32,
        is_loaded: &impl Fn(u64) -> bool,
    ) -> gimli::Result<()> {
        let unit = view.unit(number)?;
        let mut walker = Walker::new(&unit, None)?;
        let mut open: Vec<OpenScope> = Vec::new();
        let mut attributes = Vec::new();
        while let Some(step) = walker.next()? {
            while open.pop_if(|scope| scope.depth >= step.depth).is_some() {}
            let die = step.at(number);
            if is_scope(step.tag) {
                open.push(OpenScope {
                    depth: step.depth,
                    die,
                    row: None,
                });
            }
            if step.tag != gimli::DW_TAG_variable || !walker.has(gimli::DW_AT_location) {
                continue;
            }
            walker.read(&mut attributes)?;
            let address = value_of(&attributes, gimli::DW_AT_location)
                .and_then(|location| static_address(view, &unit, number, location))
                .filter(|address| is_loaded(*address));
            if let Some(address) = address {
                let scope = self.scope_row(&mut open);
                self.variables.push(Variable {
                    address,
                    die,
                    scope,
                });
            }
        }
        Ok(())
    }

    /// The row of the innermost open scope, made together with those of its parents.
    fn scope_row(&mut self, open: &mut [OpenScope]) -> Option<u32> {
        let mut parent = None;
        for scope in open {
            if scope.row.is_none() {
                scope.row = u32::try_from(self.scopes.len()).ok();
                self.scopes.push(Scope {
                    die: scope.die,
                    parent,
                });
            }
            parent = scope.row;
        }
        parent
    }

    /// The variable's name with its namespaces, type or function in front, and the mangled name if
    /// it has one.
    pub(crate) fn name(&self, view: &View<'_>, variable: Variable) -> Option<String> {
        let (unit, entry) = view.fetch(variable.die)?;
        let (linkage, plain) = view.names(&unit, &entry);
        // A C++ function's static has the parameters in its linkage name: its scopes read better.
        let reads_well = |linkage: &String| !linkage.starts_with("_ZZ") || !variable.has_scope();
        if let Some(linkage) = linkage.filter(reads_well) {
            return Some(demangle(&linkage));
        }
        let mut parts = vec![plain?];
        let mut next = variable.scope;
        while let Some(row) = next {
            let scope = self.scopes[row as usize];
            let Some((unit, entry)) = view.fetch(scope.die) else {
                break;
            };
            let (name, is_full) = scope_name(view, &unit, &entry);
            parts.push(name);
            // A parent's row is always before its child's, so that this ends.
            next = scope.parent.filter(|parent| !is_full && *parent < row);
            if parts.len() > MAX_PARTS {
                break;
            }
        }
        parts.reverse();
        Some(parts.join("::"))
    }
}

impl View<'_> {
    /// The entry of a variable's type.
    pub(crate) fn variable_type(&self, variable: Variable) -> Option<DieRef> {
        let (_, die) = self.fetch(variable.die)?;
        self.type_through_origin(&die)
    }
}

/// Namespaces and functions around a variable that its name shows.
const MAX_PARTS: usize = 16;

fn is_scope(tag: gimli::DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_namespace
            | gimli::DW_TAG_module
            | gimli::DW_TAG_subprogram
            | gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
    )
}

/// A scope's name, and whether it already has the outer scopes in it.
fn scope_name<'a>(view: &View<'a>, unit: &Unit<'a>, entry: &Die<'a>) -> (String, bool) {
    if entry.tag == gimli::DW_TAG_subprogram {
        let (linkage, plain) = view.names(unit, entry);
        if let Some(linkage) = linkage {
            return (demangle(&linkage), true);
        }
        return (plain.unwrap_or_else(|| String::from("(function)")), false);
    }
    let unnamed = match entry.tag {
        gimli::DW_TAG_namespace => "(anonymous namespace)",
        _ => "(anonymous)",
    };
    let name = view.name(unit, entry);
    (name.unwrap_or_else(|| unnamed.to_owned()), false)
}

/// The address that a location expression gives without a running program: an address, perhaps with
/// a constant added.
fn static_address(
    view: &View<'_>,
    unit: &Unit<'_>,
    number: u32,
    value: AttributeValue<Slice<'_>>,
) -> Option<u64> {
    let bytes = match value {
        AttributeValue::Exprloc(Expression(bytes)) | AttributeValue::Block(bytes) => bytes,
        _ => return None,
    };
    let mut operations = Expression(bytes).operations(unit.header.encoding());
    let mut address = match operations.next().ok()?? {
        Operation::Address { address } => address,
        Operation::AddressIndex { index } => view.dwarf_of(number).address(unit, index).ok()?,
        _ => return None,
    };
    while let Some(operation) = operations.next().ok()? {
        match operation {
            Operation::PlusConstant { value } => address = address.checked_add(value)?,
            _ => return None,
        }
    }
    Some(address)
}
