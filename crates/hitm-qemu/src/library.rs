//! Functions of the C library that QEMU gets from us ([`crate::emulator`]).

/// Declares functions of the C library as QEMU calls them, and `is_replaced`, which puts them into QEMU's table.
///
/// A call gets its answer by the closure if the callback before it has left one in the thread's `$left`. Any other
/// call, QEMU's own among them, goes to the library.
macro_rules! library {
    (
        $left:expr => $answer:ty;
        $($place:ident = $name:literal as $function:ident : fn($($arg:ident: $type:ty),*) -> $result:ty, $give:expr;)*
    ) => {
        $(
            /// The library's own, found by its name before QEMU gets another one.
            static $place: std::sync::atomic::AtomicPtr<std::ffi::c_void> =
                std::sync::atomic::AtomicPtr::new(std::ptr::null_mut());

            /// The C library's function, as QEMU calls it.
            unsafe extern "C" fn $function($($arg: $type),*) -> $result {
                if let Some(answer) = $left {
                    let give: fn($answer, $($type),*) -> $result = $give;
                    return give(answer, $($arg),*);
                }
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: it was found by this name before QEMU got another one; QEMU's own call.
                unsafe {
                    let library = $place.load(std::sync::atomic::Ordering::Relaxed);
                    let library = std::mem::transmute::<*mut std::ffi::c_void, Function>(library);
                    library($($arg),*)
                }
            }
        )*

        /// Lets QEMU call the functions here; false if it has no such entries in its table.
        pub(crate) fn is_replaced() -> bool {
            let mut all = true;
            $(
                let name = std::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()).expect("one zero");
                // SAFETY: the name ends with a zero byte.
                let library = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
                $place.store(library, std::sync::atomic::Ordering::Relaxed);
                // SAFETY: both are called alike.
                all &= !library.is_null()
                    && unsafe { $crate::emulator::replace(name, $function as *mut std::ffi::c_void) } > 0;
            )*
            all
        }
    };
}

pub(crate) use library;

/// Fails as the C library's functions do.
pub(crate) fn fail<R: From<i8>>(error: std::ffi::c_int) -> R {
    // SAFETY: the calling thread's own error.
    unsafe { *libc::__errno_location() = error };
    (-1).into()
}
