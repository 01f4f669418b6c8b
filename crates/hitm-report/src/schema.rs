//! JSON Schema of what commands write as JSON, made from the tables of fields that the JSON itself is made from.
//!
//! An object has no other keys than those of its schema, so a test that compares real outputs finds what is
//! missing here.

mod form;
mod of_hosts;
mod of_layouts;
mod of_models;
mod of_recordings;

use serde_json::{Value, json};

use crate::Printout;
use crate::object::pretty;
use form::Form;

/// An output in JSON.
#[derive(Debug, Clone)]
pub struct Output {
    /// Its name.
    pub name: &'static str,
    /// The command that writes it.
    pub command: &'static str,
    /// The document that describes it.
    pub document: &'static str,
    form: Form,
}

impl Output {
    fn new(
        name: &'static str,
        command: &'static str,
        document: &'static str,
        form: impl Into<Form>,
    ) -> Output {
        Output {
            name,
            command,
            document,
            form: form.into(),
        }
    }

    /// Its schema.
    pub fn schema(&self) -> Value {
        let mut schema = self.form.schema();
        schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        schema["title"] = json!(self.command);
        schema["$comment"] = json!(self.document);
        schema
    }

    /// Its schema as text, indented, with a line feed at the end.
    pub fn text(&self) -> String {
        pretty(&self.schema())
    }
}

/// All outputs.
pub fn outputs() -> Vec<Output> {
    [
        of_recordings::outputs(),
        of_layouts::outputs(),
        of_models::outputs(),
        of_hosts::outputs(),
    ]
    .concat()
}

/// The names of all outputs, and what writes them.
pub fn list_text() -> Printout {
    let outputs = outputs();
    let names = outputs.iter().map(|output| output.name.len());
    let width = names.max().unwrap_or(0);
    let mut out = Printout::new();
    for output in &outputs {
        out.line(&format!("{:<width$}  {}", output.name, output.command));
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn names_are_unique_and_documents_exist() {
        let outputs = outputs();
        for (index, output) in outputs.iter().enumerate() {
            let name = output.name;
            assert!(
                outputs[..index].iter().all(|other| other.name != name),
                "{name}"
            );
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
            assert!(root.join(output.document).is_file(), "{}", output.document);
        }
    }

    #[test]
    fn an_object_has_the_fields_of_its_table_and_no_others() {
        let outputs = outputs();
        let report = outputs.iter().find(|output| output.name == "report");
        let schema = report.expect("there is one").schema();
        let finding = &schema["properties"]["findings"]["items"];
        assert_eq!(finding["additionalProperties"], false);
        let share = &finding["properties"]["run_share"];
        assert_eq!(share["x-unit"], "share");
        let required = finding["required"].as_array().expect("a list");
        assert!(required.contains(&json!("name")));
        // Samples do not have it.
        assert!(!required.contains(&json!("run_share")));
    }
}
