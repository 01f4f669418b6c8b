//! The quantities of `hitm whatif`.

use hitm_fields::fields;
use hitm_whatif::{Change, LineChange, MemberChange, MoveCounts, MovedObject, ObjectKind, Sums};

/// Whatever has sums in both runs.
trait Summed {
    /// The sums.
    fn sums(&self) -> &Change<Sums>;
}

impl Summed for LineChange {
    fn sums(&self) -> &Change<Sums> {
        &self.sums
    }
}

impl Summed for MemberChange {
    fn sums(&self) -> &Change<Sums> {
        &self.sums
    }
}

fields! {
    /// Sums of accesses in both runs.
    BothSums for T: Summed {
        /// Accesses by who shared the line, as recorded.
        access_count_before => count "accesses", |item| item.sums().before.accesses;
        /// The same, as replayed.
        access_count_after => count "after", |item| item.sums().after.accesses;
        /// Local and remote HITMs, as recorded.
        hitm_count_before => count "HITM", |item| item.sums().before.local_hitm + item.sums().before.remote_hitm;
        /// The same, as replayed.
        hitm_count_after => count "after", |item| item.sums().after.local_hitm + item.sums().after.remote_hitm;
        /// Time that threads waited here, as recorded.
        stall_cycles_before => cycles "stalled", |item| item.sums().before.stall.0;
        /// The same, as replayed.
        stall_cycles_after => cycles "after", |item| item.sums().after.stall.0;
        /// Part of the stall whose source is another CPU's use of the line, as recorded.
        lost_cycles_before => cycles "lost", |item| item.sums().before.lost.0;
        /// The same, as replayed.
        lost_cycles_after => cycles "after", |item| item.sums().after.lost.0;
    }
}

fields! {
    /// A line of one run or both.
    pub whatif_line for LineChange {
        /// The object and member that cost most on the line.
        name => known name "costliest place";
        /// First byte of the line; null for a line of a moved object, which has a new one.
        address => address "address";
        /// Number of the line in the moved object, from 0; null for a line of the recording.
        line_of_object => number "line";
        ..BothSums: access_count_before, access_count_after, hitm_count_before, hitm_count_after, stall_cycles_before,
            stall_cycles_after, lost_cycles_before, lost_cycles_after;
    }
}

fields! {
    /// A member of a moved structure, over all its objects.
    pub whatif_member for MemberChange {
        /// The structure.
        r#struct => known name "struct", |item| item.type_name;
        /// The member.
        member => known name "member";
        /// Offset in the recorded program.
        offset_before_bytes => offset "offset", |item| item.offset.before;
        /// Offset in the layout file.
        offset_after_bytes => offset "after", |item| item.offset.after;
        ..BothSums: access_count_before, access_count_after, hitm_count_before, hitm_count_after, stall_cycles_before,
            stall_cycles_after, lost_cycles_before, lost_cycles_after;
    }
}

fields! {
    /// An object that was moved.
    pub whatif_object for MovedObject {
        /// The variable, or the heap block and who allocated it.
        name => known name "object";
        /// The structure, or that of its elements.
        r#struct => known name "struct", |item| item.type_name;
        /// walk, slab, variable or heap: a walk over the kernel's memory, its slab cache, a variable's type, a heap
        /// block's.
        kind => label "known by", |item| kind_text(item.kind);
        /// Accesses to it.
        moved_access_count => count "accesses", |item| item.access_count;
        /// First byte in the recorded program.
        address => address "address";
        /// Structures in it.
        element_count => count "elements";
        /// Bytes in the recorded program.
        size_before_bytes => bytes "bytes", |item| item.size_bytes;
        /// Bytes with the layout file.
        size_after_bytes => bytes "after", |item| item.size_bytes_after;
    }
}

fn kind_text(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Walked => "walk",
        ObjectKind::Slab => "slab",
        ObjectKind::Variable => "variable",
        ObjectKind::Heap => "heap",
    }
}

fields! {
    /// Fields of the moved objects, and of the accesses to them: all, those in holes, those that were split.
    pub whatif_move for MoveCounts {
        /// Moved objects.
        object_count => count "objects", |item| item.object_count();
        /// Those that a walk over the kernel's memory found.
        walked_object_count => count "walked", |item| item.objects_of(ObjectKind::Walked);
        /// Those that the kernel's slab caches tell.
        slab_object_count => count "in slabs", |item| item.objects_of(ObjectKind::Slab);
        /// Variables, and parts of variables.
        variable_object_count => count "variables", |item| item.objects_of(ObjectKind::Variable);
        /// Blocks of the program's heap.
        heap_object_count => count "heap blocks", |item| item.objects_of(ObjectKind::Heap);
        /// Accesses to moved objects.
        moved_access_count => count "moved", |item| item.moved;
        /// Those that touch bytes of no member; they moved with the member before.
        hole_access_count => count "in holes", |item| item.in_holes;
        /// Those that became several because their bytes lie apart now.
        split_access_count => count "split", |item| item.split;
    }
}
