//! The form of a value in JSON, and its JSON Schema.

use hitm_fields::{Field, Runs, Unit};
use serde_json::{Value, json};

/// Form of a value.
#[derive(Debug, Clone)]
pub(super) enum Form {
    Text,
    Whole,
    Number,
    Flag,
    /// Anything at all.
    Any,
    List(Box<Form>),
    /// An object whose keys are names.
    Map(Box<Form>),
    Object(Members),
    /// The value, or null.
    OrNull(Box<Form>),
    /// A quantity in its unit.
    Quantity(Quantity),
}

/// A quantity as its field declares it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quantity {
    unit: Unit,
    description: &'static str,
}

/// A member of an object.
#[derive(Debug, Clone)]
struct Member {
    key: &'static str,
    form: Form,
    is_required: bool,
}

/// Members of an object. It has no others.
#[derive(Debug, Clone, Default)]
pub(super) struct Members(Vec<Member>);

impl Members {
    /// Those of a table of fields. What only some kinds of runs have may be missing.
    pub(super) fn of<T>(fields: &[Field<T>]) -> Members {
        Members::default().and(fields)
    }

    /// The same with the fields of a table.
    pub(super) fn and<T>(mut self, fields: &[Field<T>]) -> Members {
        let members = fields.iter().map(|field| Member {
            key: field.id,
            form: Form::Quantity(Quantity {
                unit: field.unit,
                description: field.description(),
            }),
            is_required: field.of == Runs::All,
        });
        self.0.extend(members);
        self
    }

    /// The same without members of these keys.
    pub(super) fn without(mut self, keys: &[&str]) -> Members {
        self.0.retain(|member| !keys.contains(&member.key));
        self
    }

    /// The same with another member.
    pub(super) fn with(mut self, key: &'static str, form: impl Into<Form>) -> Members {
        self.0.push(Member {
            key,
            form: form.into(),
            is_required: true,
        });
        self
    }

    /// The same with members of one form.
    pub(super) fn with_all(self, keys: &[&'static str], form: &Form) -> Members {
        keys.iter()
            .fold(self, |all, key| all.with(key, form.clone()))
    }

    /// The same with a member that may be missing.
    pub(super) fn with_some(mut self, key: &'static str, form: impl Into<Form>) -> Members {
        self.0.push(Member {
            key,
            form: form.into(),
            is_required: false,
        });
        self
    }

    /// The same with the members of others that it has not.
    pub(super) fn joined(mut self, others: Members) -> Members {
        let is_new = |one: &Member| self.0.iter().all(|own| own.key != one.key);
        let others: Vec<Member> = others.0.into_iter().filter(is_new).collect();
        self.0.extend(others);
        self
    }

    /// The same where every member may be missing.
    pub(super) fn partly(mut self) -> Members {
        self.0
            .iter_mut()
            .for_each(|member| member.is_required = false);
        self
    }

    fn schema(&self) -> Value {
        let properties = self
            .0
            .iter()
            .map(|one| (one.key.to_owned(), one.form.schema()));
        let required = self.0.iter().filter(|one| one.is_required);
        json!({
            "type": "object",
            "properties": properties.collect::<serde_json::Map<String, Value>>(),
            "required": required.map(|one| one.key).collect::<Vec<_>>(),
            "additionalProperties": false,
        })
    }
}

impl From<Members> for Form {
    fn from(members: Members) -> Form {
        Form::Object(members)
    }
}

/// A list of values of one form.
pub(super) fn list(form: impl Into<Form>) -> Form {
    Form::List(Box::new(form.into()))
}

/// A list of objects with the fields of a table.
pub(super) fn rows<T>(fields: &[Field<T>]) -> Form {
    list(Members::of(fields))
}

/// A value or null.
pub(super) fn or_null(form: impl Into<Form>) -> Form {
    Form::OrNull(Box::new(form.into()))
}

impl Form {
    pub(super) fn schema(&self) -> Value {
        match self {
            Form::Text => json!({ "type": "string" }),
            Form::Whole => json!({ "type": "integer" }),
            Form::Number => json!({ "type": "number" }),
            Form::Flag => json!({ "type": "boolean" }),
            Form::Any => json!({}),
            Form::List(items) => json!({ "type": "array", "items": items.schema() }),
            Form::Map(values) => {
                json!({ "type": "object", "additionalProperties": values.schema() })
            }
            Form::Object(members) => members.schema(),
            Form::OrNull(form) => json!({ "anyOf": [form.schema(), { "type": "null" }] }),
            Form::Quantity(quantity) => quantity.schema(),
        }
    }
}

impl Quantity {
    /// Values that a quantity may have: null where there is none, a list where there are several.
    fn schema(self) -> Value {
        let description = self.description;
        let unit = self.unit.label();
        match self.unit {
            Unit::Address => json!({
                "description": description,
                "x-unit": unit,
                "type": ["string", "null"],
                "pattern": "^0x",
            }),
            // Words, flags and plain numbers.
            Unit::None => json!({
                "description": description,
                "type": ["string", "number", "boolean", "null", "array"],
                "items": { "type": ["string", "number"] },
            }),
            _ => json!({
                "description": description,
                "x-unit": unit,
                "type": ["number", "null", "array"],
                "items": { "type": "number" },
            }),
        }
    }
}
