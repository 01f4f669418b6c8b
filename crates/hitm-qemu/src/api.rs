//! QEMU's plugin interface, as far as the recorder uses it, looked up when the plugin is loaded.
//!
//! The functions are found by name at run time and not linked, so that one source serves every
//! version of the interface and the crate's own tests link without QEMU. Names and signatures are
//! those of QEMU's `qemu-plugin.h`, versions 1 (QEMU 7.2) to 4 (QEMU 10.0).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// QEMU's id of a loaded plugin.
pub(crate) type PluginId = u64;

/// What QEMU says about itself (`qemu_info_t`).
#[derive(Debug)]
#[repr(C)]
pub struct QemuInfo {
    target_name: *const c_char,
    version_min: c_int,
    version_cur: c_int,
    system_emulation: bool,
    smp_vcpus: c_int,
    max_vcpus: c_int,
}

impl QemuInfo {
    /// The guest's architecture in QEMU's words: "x86_64", "aarch64".
    ///
    /// # Safety
    /// `self` came from QEMU.
    pub(crate) unsafe fn target(&self) -> String {
        // SAFETY: QEMU passes a terminated string.
        unsafe { CStr::from_ptr(self.target_name) }
            .to_string_lossy()
            .into_owned()
    }

    /// The version of the plugin interface that this QEMU speaks.
    pub(crate) fn api_version(&self) -> c_int {
        self.version_cur
    }

    pub(crate) fn is_system_emulation(&self) -> bool {
        self.system_emulation
    }
}

/// A translation block while it is translated.
pub(crate) enum Tb {}
/// An instruction while its block is translated.
pub(crate) enum Insn {}

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback does not touch guest registers.
const NO_REGS: c_int = 0;

/// `QEMU_PLUGIN_MEM_RW`. Always both: QEMU 7.2 calls back for loads where only stores were asked for.
const MEM_RW: c_int = 3;

pub(crate) type VcpuCb = unsafe extern "C" fn(PluginId, c_uint);
pub(crate) type TbTransCb = unsafe extern "C" fn(PluginId, *mut Tb);
pub(crate) type ExecCb = unsafe extern "C" fn(c_uint, *mut c_void);
pub(crate) type MemCb = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
pub(crate) type AtExitCb = unsafe extern "C" fn(PluginId, *mut c_void);
pub(crate) type SyscallCb =
    unsafe extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type SyscallRetCb = unsafe extern "C" fn(PluginId, c_uint, i64, i64);

/// Declares the table of functions and how to fill it.
macro_rules! functions {
    ($($field:ident: $symbol:literal as $type:ty;)*) => {
        /// The functions of the QEMU that loaded this plugin.
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct Api {
            version: c_int,
            $($field: $type,)*
        }

        impl Api {
            /// Finds every function; the name of the first that this QEMU does not have otherwise.
            pub(crate) fn load(version: c_int) -> Result<Api, &'static str> {
                Ok(Api {
                    version,
                    $($field: {
                        let address = symbol(concat!($symbol, "\0")).ok_or($symbol)?;
                        // SAFETY: the symbol is QEMU's function of this name and signature.
                        unsafe { std::mem::transmute::<*mut c_void, $type>(address) }
                    },)*
                })
            }
        }
    };
}

functions! {
    register_vcpu_init: "qemu_plugin_register_vcpu_init_cb"
        as unsafe extern "C" fn(PluginId, VcpuCb);
    register_tb_trans: "qemu_plugin_register_vcpu_tb_trans_cb"
        as unsafe extern "C" fn(PluginId, TbTransCb);
    register_tb_exec: "qemu_plugin_register_vcpu_tb_exec_cb"
        as unsafe extern "C" fn(*mut Tb, ExecCb, c_int, *mut c_void);
    register_mem: "qemu_plugin_register_vcpu_mem_cb"
        as unsafe extern "C" fn(*mut Insn, MemCb, c_int, c_int, *mut c_void);
    register_insn_exec: "qemu_plugin_register_vcpu_insn_exec_cb"
        as unsafe extern "C" fn(*mut Insn, ExecCb, c_int, *mut c_void);
    register_syscall: "qemu_plugin_register_vcpu_syscall_cb"
        as unsafe extern "C" fn(PluginId, SyscallCb);
    register_syscall_ret: "qemu_plugin_register_vcpu_syscall_ret_cb"
        as unsafe extern "C" fn(PluginId, SyscallRetCb);
    register_atexit: "qemu_plugin_register_atexit_cb"
        as unsafe extern "C" fn(PluginId, AtExitCb, *mut c_void);
    tb_insn_count: "qemu_plugin_tb_n_insns" as unsafe extern "C" fn(*const Tb) -> usize;
    tb_insn: "qemu_plugin_tb_get_insn" as unsafe extern "C" fn(*const Tb, usize) -> *mut Insn;
    insn_vaddr: "qemu_plugin_insn_vaddr" as unsafe extern "C" fn(*const Insn) -> u64;
    insn_haddr: "qemu_plugin_insn_haddr" as unsafe extern "C" fn(*const Insn) -> *const c_void;
    insn_size: "qemu_plugin_insn_size" as unsafe extern "C" fn(*const Insn) -> usize;
    insn_data: "qemu_plugin_insn_data" as unsafe extern "C" fn();
    mem_is_store: "qemu_plugin_mem_is_store" as unsafe extern "C" fn(u32) -> bool;
    mem_size_shift: "qemu_plugin_mem_size_shift" as unsafe extern "C" fn(u32) -> c_uint;
}

fn symbol(name: &'static str) -> Option<*mut c_void> {
    // SAFETY: `name` ends with a zero byte; the default handle searches the running program.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
    (!address.is_null()).then_some(address)
}

/// Longest instruction of the architectures that are recorded (x86: 15 bytes).
pub(crate) const INSN_BYTES_MAX: usize = 16;

/// Calls into QEMU. All of them are sound only with handles that QEMU passed to the callback that
/// is running now, which is where the recorder makes them.
impl Api {
    pub(crate) fn on_vcpu_init(&self, id: PluginId, callback: VcpuCb) {
        // SAFETY: see the impl.
        unsafe { (self.register_vcpu_init)(id, callback) }
    }

    pub(crate) fn on_tb_trans(&self, id: PluginId, callback: TbTransCb) {
        // SAFETY: see the impl.
        unsafe { (self.register_tb_trans)(id, callback) }
    }

    pub(crate) fn on_syscall(&self, id: PluginId, before: SyscallCb, after: SyscallRetCb) {
        // SAFETY: see the impl.
        unsafe {
            (self.register_syscall)(id, before);
            (self.register_syscall_ret)(id, after);
        }
    }

    pub(crate) fn on_exit(&self, id: PluginId, callback: AtExitCb) {
        // SAFETY: see the impl.
        unsafe { (self.register_atexit)(id, callback, std::ptr::null_mut()) }
    }

    pub(crate) fn on_tb_exec(&self, tb: *mut Tb, callback: ExecCb, data: usize) {
        // SAFETY: see the impl.
        unsafe { (self.register_tb_exec)(tb, callback, NO_REGS, data as *mut c_void) }
    }

    pub(crate) fn on_insn_exec(&self, insn: *mut Insn, callback: ExecCb, data: *const c_void) {
        // SAFETY: see the impl.
        unsafe { (self.register_insn_exec)(insn, callback, NO_REGS, data.cast_mut()) }
    }

    pub(crate) fn on_mem(&self, insn: *mut Insn, callback: MemCb, data: *const c_void) {
        // SAFETY: see the impl.
        unsafe { (self.register_mem)(insn, callback, NO_REGS, MEM_RW, data.cast_mut()) }
    }

    pub(crate) fn insns(&self, tb: *mut Tb) -> impl Iterator<Item = *mut Insn> + '_ {
        // SAFETY: see the impl.
        let count = unsafe { (self.tb_insn_count)(tb) };
        // SAFETY: as above, and the index is in range.
        (0..count).map(move |index| unsafe { (self.tb_insn)(tb, index) })
    }

    pub(crate) fn insn_vaddr(&self, insn: *mut Insn) -> u64 {
        // SAFETY: see the impl.
        unsafe { (self.insn_vaddr)(insn) }
    }

    /// Where the instruction's bytes are in this process.
    pub(crate) fn insn_haddr(&self, insn: *mut Insn) -> u64 {
        // SAFETY: see the impl.
        unsafe { (self.insn_haddr)(insn) as u64 }
    }

    /// The instruction's bytes, cut at [`INSN_BYTES_MAX`]: the buffer and how much of it is used.
    pub(crate) fn insn_bytes(&self, insn: *mut Insn) -> ([u8; INSN_BYTES_MAX], usize) {
        let mut bytes = [0; INSN_BYTES_MAX];
        // SAFETY: see the impl.
        let size = unsafe { (self.insn_size)(insn) }.min(INSN_BYTES_MAX);
        // SAFETY: version 3 changed the function from returning a pointer to copying; which of
        // the two this QEMU has follows from the version that it accepted.
        unsafe {
            if self.version < 3 {
                let data: unsafe extern "C" fn(*const Insn) -> *const u8 =
                    std::mem::transmute(self.insn_data);
                std::ptr::copy_nonoverlapping(data(insn), bytes.as_mut_ptr(), size);
            } else {
                let copy: unsafe extern "C" fn(*const Insn, *mut c_void, usize) -> usize =
                    std::mem::transmute(self.insn_data);
                copy(insn, bytes.as_mut_ptr().cast(), size);
            }
        }
        (bytes, size)
    }

    /// Whether a memory callback is about a store.
    #[inline(always)]
    pub(crate) fn is_store(&self, info: u32) -> bool {
        // SAFETY: `info` is the callback's own argument.
        unsafe { (self.mem_is_store)(info) }
    }

    /// Bytes that a memory callback is about.
    pub(crate) fn access_size(&self, info: u32) -> u64 {
        // SAFETY: `info` is the callback's own argument.
        1 << unsafe { (self.mem_size_shift)(info) }
    }
}
