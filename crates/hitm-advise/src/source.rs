//! A proposal as source text: a structure with assertions, or a diff of the file that declares it.

use hitm_layout::advise::Subject;
use hitm_layout::emit::{
    Declaration, Emission, EmitError, Flattened, Source, Style, Types, c_asserts, c_struct,
    clang_reorder_fields, cpp_text, declarations, flattened, kernel_asserts, patch_go, patch_rust,
    patch_struct, rust_struct, semantic_patch, type_names,
};
use hitm_layout::layout_file::FileStruct;
use hitm_layout::{SourceNames, StructLayout, TypeStore};

/// Language of the source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C or C++ or the kernel's dialect.
    C(Style),
    /// Rust.
    Rust,
    /// Go.
    Go,
}

/// Inputs of the source text.
pub(super) struct Wanted<'w> {
    pub(super) subject: &'w Subject,
    pub(super) layout: &'w FileStruct,
    /// The structure in debug information.
    pub(super) of: &'w StructLayout,
    pub(super) store: &'w TypeStore,
    /// Names of the types in source.
    pub(super) names: &'w SourceNames,
    pub(super) language: Language,
    /// The file that declares the structure. None when a structure inside is opened, as its members
    /// are declared elsewhere.
    pub(super) file: Option<Source<'w>>,
}

/// Returns the structure with assertions, or a unified diff of the file.
pub(super) fn emit(wanted: &Wanted<'_>) -> Result<String, EmitError> {
    let (of, subject) = (wanted.of, wanted.subject);
    let types = Types {
        store: wanted.store,
        names: wanted.names,
    };
    let flat = flattened(subject, wanted.layout, of, wanted.store)?;
    let declarations = match (wanted.language, wanted.file) {
        // A diff keeps the file's declarations; types stand at most in comments.
        (Language::C(_) | Language::Go, Some(_)) => Vec::new(),
        (Language::C(_) | Language::Go, None) => declarations(subject, &flat.subject, of, types)?,
        (Language::Rust, Some(_)) => type_names(subject, of, types).unwrap_or_default(),
        (Language::Rust, None) => type_names(subject, of, types)?,
    };
    let style = match wanted.language {
        Language::C(style) => style,
        Language::Rust | Language::Go => Style::C,
    };
    let emission = Emission::new(&flat.subject, &flat.layout, &declarations, style)?;
    match (wanted.language, wanted.file) {
        (Language::Rust, Some(file)) => patch_rust(&emission, file),
        (Language::Rust, None) => Ok(rust_struct(&emission)? + &renamed("// ", &flat.renames)),
        (Language::C(_), Some(file)) => {
            let told = Declaration::of(subject, of, wanted.store);
            patch_struct(&emission, file, &told)
        }
        (Language::Go, Some(file)) => patch_go(&emission, file),
        (Language::C(_) | Language::Go, None) => Ok(c_text(&emission, wanted, &flat)),
    }
}

/// The structure with assertions, in C or C++.
fn c_text(emission: &Emission<'_>, wanted: &Wanted<'_>, flat: &Flattened) -> String {
    let (layout, renames) = (&flat.layout, &flat.renames);
    let style = emission.style();
    let mut out = c_struct(emission) + "\n" + &c_asserts(layout, style);
    if style == Style::Kernel {
        out += &("\n".to_owned() + &kernel_asserts(layout));
    }
    if style == Style::Cpp {
        out = cpp_text(&out, emission, wanted.names);
    }
    let is_own = |name: &str| {
        let mut members = wanted.of.members.iter();
        name.starts_with('(') || members.any(|member| member.name.as_deref() == Some(name))
    };
    // The tool does not look into anonymous structures.
    if !layout.members.iter().all(|member| is_own(&member.name)) && renames.is_empty() {
        return out;
    }
    if renames.is_empty() {
        let declared_in = wanted.of.decl.as_ref().map_or("FILE.c", |decl| &*decl.file);
        let command = clang_reorder_fields(layout, declared_in);
        return out + &format!("\n/* {command} */\n");
    }
    if style == Style::Cpp {
        return out + &renamed("// ", renames);
    }
    let patch = semantic_patch(&layout.name, renames);
    out + &format!(
        "\n/* Members of opened structures have other names now. spatch --sp-file FILE --in-place DIR, \
         of\nCoccinelle, rewrites their uses with this; the compiler finds what takes a whole opened\n\
         structure.\n\n{patch}*/\n"
    )
}

/// Lists the members' new names, as comments.
fn renamed(comment: &str, renames: &[(String, String)]) -> String {
    let mut out = String::new();
    if !renames.is_empty() {
        out += &format!("\n{comment}Members of opened structures have other names now:\n");
    }
    for (old, new) in renames {
        out += &format!("{comment}  {old} is {new}\n");
    }
    out
}
