//! Objects of JSON that are put together of fields. Keys are in the order of the alphabet, and numbers keep all of
//! their digits.

use hitm_fields::{Field, Unit, Value};
use serde_json::{Map, Value as Json};

/// An object under construction.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Object(Map<String, Json>);

impl Object {
    /// The quantities of an item, under their ids.
    pub(crate) fn of<'a, T: 'static>(
        fields: impl IntoIterator<Item = &'a Field<T>>,
        item: &T,
    ) -> Object {
        let fields = fields.into_iter();
        let members = fields.map(|field| {
            let value = json(field.unit, (field.value)(item));
            (field.id.to_owned(), value)
        });
        Object(members.collect())
    }

    /// The same with another member.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Json>) -> Object {
        self.set(key, value);
        self
    }

    /// Adds a member.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Json>) {
        self.0.insert(key.to_owned(), value.into());
    }

    /// Adds the members of another one.
    pub(crate) fn extend(&mut self, other: Object) {
        self.0.extend(other.0);
    }

    /// As text: indented, with a line feed at the end.
    pub(crate) fn text(self) -> String {
        format!("{:#}\n", Json::Object(self.0))
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Json {
        Json::Object(object.0)
    }
}

/// An object for each item.
pub(crate) fn objects<T: 'static>(fields: &[Field<T>], items: &[T]) -> Json {
    items.iter().map(|item| Object::of(fields, item)).collect()
}

fn json(unit: Unit, value: Value) -> Json {
    match value {
        Value::Missing => Json::Null,
        Value::Flag(flag) => flag.into(),
        // As text: many readers of JSON keep 53 bits of a number only.
        Value::Whole(address) if unit == Unit::Address => format!("{address:#x}").into(),
        Value::Whole(number) => number.into(),
        Value::Number(number) => number.into(),
        Value::Text(text) => text.into(),
        Value::Texts(texts) => texts.into(),
        Value::Wholes(numbers) => numbers.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    hitm_fields::fields! {
        /// A lock.
        struct Lock in lock {
            /// Where it lies.
            at: u64 => address "at";
            /// Its share.
            share: f64 => share "share";
            /// Its name, if it has one.
            name: Option<String> => name "lock";
        }
    }

    #[test]
    fn keys_are_sorted_and_numbers_are_whole() {
        let seen = Lock {
            at: 0x40,
            share: 1.0 / 3.0,
            name: None,
        };
        let object = Object::of(lock::ALL, &seen).with("cpus", vec![1, 2]);
        let expected = "{\n  \"at\": \"0x40\",\n  \"cpus\": [\n    1,\n    2\n  ],\n  \"name\": null,\n  \"share\": 0.3333333333333333\n}\n";
        assert_eq!(object.text(), expected);
    }
}
