//! QEMU's plugin interface, as far as the recorder uses it, looked up when the plugin is loaded.
//!
//! The functions are found by name at run time and not linked, so that one source serves every
//! version of the interface and the crate's own tests link without QEMU. Names and signatures are
//! those of QEMU's `qemu-plugin.h`, versions 1 (QEMU 7.2) to 4 (QEMU 10.0).

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// QEMU's id of a loaded plugin.
pub(crate) type PluginId = u64;

/// QEMU's target, plugin API versions and kind of emulation (`qemu_info_t`).
#[derive(Debug)]
#[repr(C)]
pub struct QemuInfo {
    target_name: *const c_char,
    version_min: c_int,
    /// The version of the plugin interface that this QEMU speaks.
    pub(crate) version_cur: c_int,
    pub(crate) system_emulation: bool,
    /// Virtual CPUs of an emulated machine.
    pub(crate) smp_vcpus: c_int,
    max_vcpus: c_int,
}

impl QemuInfo {
    /// The guest's architecture by QEMU's name.
    ///
    /// # Safety
    /// `self` came from QEMU.
    pub(crate) unsafe fn target(&self) -> String {
        // SAFETY: QEMU passes a terminated string.
        unsafe { CStr::from_ptr(self.target_name) }
            .to_string_lossy()
            .into_owned()
    }
}

/// A translation block while it is translated.
pub(crate) enum Tb {}
/// An instruction while its block is translated.
pub(crate) enum Insn {}
/// A physical address, as QEMU hands it to a memory callback.
pub(crate) enum Hwaddr {}

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback does not touch guest registers.
const NO_REGS: c_int = 0;

/// `QEMU_PLUGIN_CB_R_REGS`: the callback reads guest registers, so QEMU has them in memory.
const READS_REGS: c_int = 1;

/// `QEMU_PLUGIN_MEM_RW`. Always both: QEMU 7.2 calls back for loads where only stores were asked for.
const MEM_RW: c_int = 3;

pub(crate) type VcpuCb = unsafe extern "C" fn(PluginId, c_uint);
pub(crate) type TbTransCb = unsafe extern "C" fn(PluginId, *mut Tb);
pub(crate) type ExecCb = unsafe extern "C" fn(c_uint, *mut c_void);
pub(crate) type MemCb = unsafe extern "C" fn(c_uint, u32, u64, *mut c_void);
pub(crate) type AtExitCb = unsafe extern "C" fn(PluginId, *mut c_void);
pub(crate) type ResetCb = unsafe extern "C" fn(PluginId);
pub(crate) type SyscallCb =
    unsafe extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub(crate) type SyscallRetCb = unsafe extern "C" fn(PluginId, c_uint, i64, i64);

/// Declares a table of functions and how to fill it.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident: $($field:ident: $symbol:literal as $type:ty;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        struct $table {
            $($field: $type,)*
        }

        impl $table {
            /// Finds every function; otherwise the name of the first that this QEMU does not have.
            fn find() -> Result<$table, &'static str> {
                Ok($table {
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
    /// Functions of every QEMU with plugins.
    Functions:
    register_vcpu_init: "qemu_plugin_register_vcpu_init_cb"
        as unsafe extern "C" fn(PluginId, VcpuCb);
    register_vcpu_exit: "qemu_plugin_register_vcpu_exit_cb"
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
    reset: "qemu_plugin_reset" as unsafe extern "C" fn(PluginId, ResetCb);
    tb_insn_count: "qemu_plugin_tb_n_insns" as unsafe extern "C" fn(*const Tb) -> usize;
    tb_insn: "qemu_plugin_tb_get_insn" as unsafe extern "C" fn(*const Tb, usize) -> *mut Insn;
    insn_vaddr: "qemu_plugin_insn_vaddr" as unsafe extern "C" fn(*const Insn) -> u64;
    insn_haddr: "qemu_plugin_insn_haddr" as unsafe extern "C" fn(*const Insn) -> *const c_void;
    insn_size: "qemu_plugin_insn_size" as unsafe extern "C" fn(*const Insn) -> usize;
    insn_data: "qemu_plugin_insn_data" as unsafe extern "C" fn();
    mem_is_store: "qemu_plugin_mem_is_store" as unsafe extern "C" fn(u32) -> bool;
    mem_size_shift: "qemu_plugin_mem_size_shift" as unsafe extern "C" fn(u32) -> c_uint;
}

functions! {
    /// Functions that only the emulation of whole machines has.
    SystemFunctions:
    register_idle: "qemu_plugin_register_vcpu_idle_cb"
        as unsafe extern "C" fn(PluginId, VcpuCb);
    register_resume: "qemu_plugin_register_vcpu_resume_cb"
        as unsafe extern "C" fn(PluginId, VcpuCb);
    get_hwaddr: "qemu_plugin_get_hwaddr" as unsafe extern "C" fn(u32, u64) -> *const Hwaddr;
    hwaddr_is_io: "qemu_plugin_hwaddr_is_io" as unsafe extern "C" fn(*const Hwaddr) -> bool;
    hwaddr_phys: "qemu_plugin_hwaddr_phys_addr" as unsafe extern "C" fn(*const Hwaddr) -> u64;
}

/// The QEMU that loaded this plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Api {
    version: c_int,
    /// The bit that tells stores from loads in what memory callbacks get; 0 where it takes more than one.
    store_bit: u32,
    /// Place of the three bits with the power of two of an access's size; none where they are others.
    size_place: Option<u32>,
    functions: Functions,
}

functions! {
    /// Functions that QEMU has from version 9.2 on.
    ValueFunctions:
    get_value: "qemu_plugin_mem_get_value" as unsafe extern "C" fn(u32) -> MemValue;
}

/// A value that was read or written: its type, and its lowest eight bytes.
#[repr(C)]
struct MemValue {
    kind: c_int,
    low: u64,
    high: u64,
}

/// The same QEMU, when it emulates a whole machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemApi {
    functions: SystemFunctions,
    values: Option<ValueFunctions>,
}

/// Target of an access to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    /// Memory at this physical address.
    Memory(u64),
    /// The registers of a device.
    Device,
    /// QEMU does not say.
    Unknown,
}

impl SystemApi {
    /// Finds the functions; otherwise the name of the first that this QEMU does not have.
    pub(crate) fn load() -> Result<SystemApi, &'static str> {
        let functions = SystemFunctions::find()?;
        let values = ValueFunctions::find().ok();
        Ok(SystemApi { functions, values })
    }

    pub(crate) fn on_idle(&self, id: PluginId, idle: VcpuCb, resume: VcpuCb) {
        // SAFETY: see the impl of `Api`.
        unsafe {
            (self.functions.register_idle)(id, idle);
            (self.functions.register_resume)(id, resume);
        }
    }

    /// Returns true if this QEMU says what accesses read and write (9.2 and later).
    pub(crate) fn has_values(&self) -> bool {
        self.values.is_some()
    }

    /// Returns what the access whose memory callback is running read or wrote; none where QEMU does not say.
    pub(crate) fn value(&self, info: u32) -> Option<u64> {
        /// Types are numbered by the powers of two of their sizes.
        const LARGEST: c_int = 3;
        // SAFETY: see the impl of `Api`.
        let value = unsafe { (self.values?.get_value)(info) };
        let unused = 64 - (8 << value.kind.clamp(0, LARGEST));
        Some(value.low << unused >> unused)
    }

    /// Returns the target of the access whose memory callback is running.
    pub(crate) fn reached(&self, info: u32, vaddr: u64) -> Reached {
        // SAFETY: see the impl of `Api`; a null handle is not passed on.
        unsafe {
            let hwaddr = (self.functions.get_hwaddr)(info, vaddr);
            if hwaddr.is_null() {
                Reached::Unknown
            } else if (self.functions.hwaddr_is_io)(hwaddr) {
                Reached::Device
            } else {
                Reached::Memory((self.functions.hwaddr_phys)(hwaddr))
            }
        }
    }
}

fn symbol(name: &'static str) -> Option<*mut c_void> {
    // SAFETY: `name` ends with a zero byte; the default handle searches the running program.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
    (!address.is_null()).then_some(address)
}

/// Longest instruction of the architectures that are recorded (x86: 15 bytes).
pub(crate) const INSN_BYTES_MAX: usize = 16;

/// An instruction's bytes: the buffer, and how much of it is used.
pub(crate) type InsnBytes = ([u8; INSN_BYTES_MAX], usize);

/// Calls into QEMU. All of them are sound only with handles that QEMU passed to the callback that
/// is running now, which is where the recorder makes them.
impl Api {
    /// Finds the functions; otherwise the name of the first that this QEMU does not have.
    /// `version` is that of the plugin interface.
    pub(crate) fn load(version: c_int) -> Result<Api, &'static str> {
        let functions = Functions::find()?;
        // SAFETY: it only looks at the number.
        let is_store = |info| unsafe { (functions.mem_is_store)(info) };
        // SAFETY: as above.
        let size_shift = |info| unsafe { (functions.mem_size_shift)(info) };
        Ok(Api {
            version,
            store_bit: store_bit(is_store),
            size_place: size_place(size_shift),
            functions,
        })
    }

    /// Forgets all callbacks and all translated code once no guest thread runs, then calls `then`. To be called
    /// while guest code runs: else nothing translated is forgotten.
    pub(crate) fn reset(&self, id: PluginId, then: ResetCb) {
        // SAFETY: see the impl.
        unsafe { (self.functions.reset)(id, then) }
    }

    pub(crate) fn on_vcpu_init(&self, id: PluginId, callback: VcpuCb) {
        // SAFETY: see the impl.
        unsafe { (self.functions.register_vcpu_init)(id, callback) }
    }

    pub(crate) fn on_vcpu_exit(&self, id: PluginId, callback: VcpuCb) {
        // SAFETY: see the impl.
        unsafe { (self.functions.register_vcpu_exit)(id, callback) }
    }

    pub(crate) fn on_tb_trans(&self, id: PluginId, callback: TbTransCb) {
        // SAFETY: see the impl.
        unsafe { (self.functions.register_tb_trans)(id, callback) }
    }

    pub(crate) fn on_syscall(&self, id: PluginId, before: SyscallCb, after: SyscallRetCb) {
        // SAFETY: see the impl.
        unsafe {
            (self.functions.register_syscall)(id, before);
            (self.functions.register_syscall_ret)(id, after);
        }
    }

    pub(crate) fn on_exit(&self, id: PluginId, callback: AtExitCb) {
        // SAFETY: see the impl.
        unsafe { (self.functions.register_atexit)(id, callback, std::ptr::null_mut()) }
    }

    pub(crate) fn on_tb_exec(&self, tb: *mut Tb, callback: ExecCb, data: usize) {
        // SAFETY: see the impl.
        unsafe { (self.functions.register_tb_exec)(tb, callback, NO_REGS, data as *mut c_void) }
    }

    pub(crate) fn on_insn_exec(&self, insn: *mut Insn, callback: ExecCb, data: *const c_void) {
        // SAFETY: see the impl.
        unsafe { (self.functions.register_insn_exec)(insn, callback, NO_REGS, data.cast_mut()) }
    }

    /// Like `on_insn_exec`, for a callback that reads the guest's registers; since QEMU 9.
    pub(crate) fn on_insn_exec_with_registers(
        &self,
        insn: *mut Insn,
        callback: ExecCb,
        data: *const c_void,
    ) {
        let data = data.cast_mut();
        // SAFETY: see the impl.
        unsafe { (self.functions.register_insn_exec)(insn, callback, READS_REGS, data) }
    }

    pub(crate) fn on_mem(&self, insn: *mut Insn, callback: MemCb, data: *const c_void) {
        // SAFETY: see the impl.
        unsafe { (self.functions.register_mem)(insn, callback, NO_REGS, MEM_RW, data.cast_mut()) }
    }

    pub(crate) fn insns(&self, tb: *mut Tb) -> impl Iterator<Item = *mut Insn> + '_ {
        // SAFETY: see the impl.
        let count = unsafe { (self.functions.tb_insn_count)(tb) };
        // SAFETY: as above, and the index is in range.
        (0..count).map(move |index| unsafe { (self.functions.tb_insn)(tb, index) })
    }

    pub(crate) fn insn_vaddr(&self, insn: *mut Insn) -> u64 {
        // SAFETY: see the impl.
        unsafe { (self.functions.insn_vaddr)(insn) }
    }

    /// Address of the instruction's bytes in this process.
    pub(crate) fn insn_haddr(&self, insn: *mut Insn) -> u64 {
        // SAFETY: see the impl.
        unsafe { (self.functions.insn_haddr)(insn) as u64 }
    }

    /// The instruction's bytes, cut at [`INSN_BYTES_MAX`].
    pub(crate) fn insn_bytes(&self, insn: *mut Insn) -> InsnBytes {
        let mut bytes = [0; INSN_BYTES_MAX];
        // SAFETY: see the impl.
        let size = unsafe { (self.functions.insn_size)(insn) }.min(INSN_BYTES_MAX);
        // SAFETY: version 3 changed the function from returning a pointer to copying; which of
        // the two this QEMU has follows from the version that it accepted.
        unsafe {
            if self.version < 3 {
                let data: unsafe extern "C" fn(*const Insn) -> *const u8 =
                    std::mem::transmute(self.functions.insn_data);
                std::ptr::copy_nonoverlapping(data(insn), bytes.as_mut_ptr(), size);
            } else {
                let copy: unsafe extern "C" fn(*const Insn, *mut c_void, usize) -> usize =
                    std::mem::transmute(self.functions.insn_data);
                copy(insn, bytes.as_mut_ptr().cast(), size);
            }
        }
        (bytes, size)
    }

    /// Returns true if a memory callback is about a store.
    #[inline(always)]
    pub(crate) fn is_store(&self, info: u32) -> bool {
        match self.store_bit {
            // SAFETY: `info` is the callback's own argument.
            0 => unsafe { (self.functions.mem_is_store)(info) },
            bit => info & bit != 0,
        }
    }

    /// Bytes that a memory callback is about.
    #[inline(always)]
    pub(crate) fn access_size(&self, info: u32) -> u64 {
        match self.size_place {
            Some(place) => 1 << (info >> place & SIZE_MASK),
            // SAFETY: `info` is the callback's own argument.
            None => 1 << unsafe { (self.functions.mem_size_shift)(info) },
        }
    }
}

/// The bit of a number that decides `is_store`; 0 if there is no one such bit. A look at it is cheaper than the call.
fn store_bit(is_store: impl Fn(u32) -> bool) -> u32 {
    let bits = (0..u32::BITS).map(|place| 1 << place);
    let mut deciding = bits.filter(|bit| is_store(*bit));
    match (deciding.next(), deciding.next()) {
        (Some(bit), None) if is_store(u32::MAX) && !is_store(!bit) => bit,
        _ => 0,
    }
}

/// Bits of a size's power of two.
const SIZE_MASK: u32 = 7;

/// The place of the bits that are the answer of `size_shift`, if they are; as for [`store_bit`].
fn size_place(size_shift: impl Fn(u32) -> u32) -> Option<u32> {
    let is_it = |place: &u32| {
        let all = (0..=SIZE_MASK).all(|shift| size_shift(shift << place) == shift);
        all && size_shift(!(SIZE_MASK << place)) == 0 && size_shift(u32::MAX) == SIZE_MASK
    };
    (0..u32::BITS - 2).find(is_it)
}

/// A recorder's time, for the library that makes QEMU's clocks of it (`hitm-clock`, which declares
/// the same).
#[repr(C)]
pub(crate) struct VirtualTime {
    /// Virtual nanoseconds since the recording began.
    pub(crate) nanos: extern "C" fn() -> u64,
    /// Returns true if all CPUs idle, so that time passes only by `pass`.
    pub(crate) stands: extern "C" fn() -> bool,
    /// Advances a stopped clock to this number of nanoseconds.
    pub(crate) pass: extern "C" fn(u64),
}

/// Lets the guest's time follow `time`, if the library that can do it is preloaded.
pub(crate) fn drive_clock(time: VirtualTime) {
    if let Some(drive) = symbol("hitm_clock_drive\0") {
        // SAFETY: the symbol is the function of `hitm-clock`, which has this signature.
        let drive: unsafe extern "C" fn(VirtualTime) = unsafe { std::mem::transmute(drive) };
        // SAFETY: it takes any functions that may be called at any time.
        unsafe { drive(time) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_tells_a_store_or_a_call_does() {
        assert_eq!(store_bit(|info| (info >> 16) & 2 != 0), 1 << 17);
        assert_eq!(store_bit(|info| info & 6 != 0), 0, "either of two");
        assert_eq!(store_bit(|info| info & 6 == 6), 0, "both of two");
        assert_eq!(store_bit(|info| info & 6 == 4), 0, "one without the other");
    }

    #[test]
    fn three_bits_tell_the_size_or_a_call_does() {
        assert_eq!(size_place(|info| info >> 4 & 7), Some(4));
        assert_eq!(size_place(|info| info >> 4 & 3), None, "two bits");
        assert_eq!(size_place(|info| 1 + (info >> 4 & 7)), None);
    }
}
