//! The recorder as a plugin that claims QEMU plugin API 1.
//!
//! QEMU refuses a plugin whose version symbol lies outside its own range, so there is one shared
//! library for each range; all code is in `hitm-qemu`.

use std::ffi::{c_char, c_int};

/// The API that this library claims; QEMU reads it before it calls anything.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is QEMU's")]
pub static qemu_plugin_version: c_int = 1;

/// QEMU's entry point.
///
/// # Safety
/// QEMU calls it once, with its own description and the plugin's arguments.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const hitm_qemu::QemuInfo,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    // SAFETY: the arguments are QEMU's, as this function requires.
    unsafe { hitm_qemu::install(id, info, argc, argv) }
}
