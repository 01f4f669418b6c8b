//! The sentences of advice, each in one place, with the quantities that go into it.

pub(crate) mod layout;
