//! Objects of JSON that are put together of fields.

use std::borrow::Cow;

use hitm_fields::{Field, Unit, Value, of_run};
use serde::ser::{Serialize, Serializer};
use serde_json::Value as Json;

/// Decimals of a number: a millionth of a share, a millionth of a cycle. More would be noise.
const DECIMALS_SCALE: f64 = 1e6;

/// An object under construction: its members in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Object(Vec<(Cow<'static, str>, Node)>);

/// A member of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    /// A quantity.
    Value(Unit, Value),
    /// Something that is no quantity.
    Json(Json),
    List(Vec<Node>),
    Object(Object),
}

impl Object {
    /// The quantities of an item, under their ids.
    pub(crate) fn of<'a, T: 'a>(
        fields: impl IntoIterator<Item = &'a Field<T>>,
        item: &T,
    ) -> Object {
        let fields = fields.into_iter();
        let members = fields.map(|field| {
            let value = Node::Value(field.unit, (field.value)(item));
            (field.id.into(), value)
        });
        Object(members.collect())
    }

    /// Those that a run has.
    pub(crate) fn of_run<T>(fields: &[Field<T>], item: &T, is_sampled: bool) -> Object {
        Object::of(of_run(fields, is_sampled), item)
    }

    /// The same with another member.
    pub(crate) fn with(mut self, key: &'static str, value: impl Into<Node>) -> Object {
        self.0.push((key.into(), value.into()));
        self
    }

    /// The same with a member that may be missing.
    pub(crate) fn with_some(self, key: &'static str, value: Option<impl Into<Node>>) -> Object {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    /// The same with an object or null.
    pub(crate) fn with_or_null(self, key: &'static str, object: Option<Object>) -> Object {
        self.with(key, object.map_or(Node::Json(Json::Null), Node::Object))
    }

    /// The same with the members of another one.
    pub(crate) fn and(mut self, other: Object) -> Object {
        self.0.extend(other.0);
        self
    }

    /// As text in the order of the members, with six decimals: indented, with a line feed at the end.
    pub(crate) fn text(&self) -> String {
        pretty(self)
    }

    /// As text in the order of the alphabet, with all digits: indented, with a line feed at the end.
    pub(crate) fn sorted_text(self) -> String {
        format!("{:#}\n", Node::Object(self).exact())
    }

    /// As a value with six decimals.
    pub(crate) fn json(&self) -> Json {
        serde_json::to_value(self).expect("an object is strings, numbers and lists of them")
    }
}

impl Node {
    /// With all digits.
    fn exact(self) -> Json {
        match self {
            Node::Value(_, Value::Number(number)) => number.into(),
            Node::Value(unit, value) => quantity(unit, value),
            Node::Json(json) => json,
            Node::List(nodes) => nodes.into_iter().map(Node::exact).collect(),
            Node::Object(Object(members)) => {
                let members = members.into_iter();
                let members = members.map(|(key, node)| (key.into_owned(), node.exact()));
                Json::Object(members.collect())
            }
        }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, node)| (key, node)))
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Value(unit, value) => quantity(*unit, value.clone()).serialize(serializer),
            Node::Json(json) => json.serialize(serializer),
            Node::List(nodes) => nodes.serialize(serializer),
            Node::Object(object) => object.serialize(serializer),
        }
    }
}

impl FromIterator<(String, Object)> for Object {
    fn from_iter<I: IntoIterator<Item = (String, Object)>>(members: I) -> Object {
        let members = members.into_iter();
        Object(
            members
                .map(|(key, object)| (key.into(), object.into()))
                .collect(),
        )
    }
}

impl<T: Into<Json>> From<T> for Node {
    fn from(value: T) -> Node {
        Node::Json(value.into())
    }
}

impl From<Object> for Node {
    fn from(object: Object) -> Node {
        Node::Object(object)
    }
}

impl<N: Into<Node>> FromIterator<N> for Node {
    fn from_iter<I: IntoIterator<Item = N>>(nodes: I) -> Node {
        Node::List(nodes.into_iter().map(N::into).collect())
    }
}

/// Data as text: indented, with a line feed at the end.
pub(crate) fn pretty(data: &impl Serialize) -> String {
    let text = serde_json::to_string_pretty(data);
    text.expect("data is strings, numbers, and lists and maps of them") + "\n"
}

/// An object for each item.
pub(crate) fn list<T>(fields: &[Field<T>], items: &[T]) -> Node {
    list_of_run(fields, items, false)
}

/// The same with the quantities that a run has.
pub(crate) fn list_of_run<T>(fields: &[Field<T>], items: &[T], is_sampled: bool) -> Node {
    let items = items.iter();
    items
        .map(|item| Object::of_run(fields, item, is_sampled))
        .collect()
}

/// A quantity in the manner of its unit, with six decimals.
pub(crate) fn quantity(unit: Unit, value: Value) -> Json {
    match value {
        Value::Missing => Json::Null,
        Value::Flag(flag) => flag.into(),
        // As text: many readers of JSON keep 53 bits of a number only.
        Value::Whole(address) if unit == Unit::Address => format!("{address:#x}").into(),
        Value::Whole(number) => number.into(),
        Value::Number(number) => ((number * DECIMALS_SCALE).round() / DECIMALS_SCALE).into(),
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
            /// Place where it lies.
            at: u64 => address "at";
            /// Its share.
            share: f64 => share "share";
            /// Its name, if it has one.
            name: Option<String> => name "lock";
        }
    }

    #[test]
    fn members_are_in_order_or_sorted_with_all_digits() {
        let seen = Lock {
            at: 0x40,
            share: 1.0 / 3.0,
            name: None,
        };
        let object = Object::of(lock::ALL, &seen).with("cpus", vec![1, 2]);
        let sorted = "{\n  \"at\": \"0x40\",\n  \"cpus\": [\n    1,\n    2\n  ],\n  \"name\": null,\n  \"share\": 0.3333333333333333\n}\n";
        let in_order = "{\n  \"at\": \"0x40\",\n  \"share\": 0.333333,\n  \"name\": null,\n  \"cpus\": [\n    1,\n    2\n  ]\n}\n";
        assert_eq!(object.text(), in_order);
        assert_eq!(object.sorted_text(), sorted);
    }
}
