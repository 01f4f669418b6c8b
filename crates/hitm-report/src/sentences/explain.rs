//! The rules of verdicts, what of a line met them, and what would change it, in words.

use super::sentences;

sentences! {
    /// Enough contended accesses for a verdict.
    enough(accesses, all) = "At least {accesses} accesses took the line from another CPU, and at least one in {all} of \
                             all accesses to it.";
    /// Threads and places that count.
    who_counts(threads, places) = "At least two threads count: those with one part in {threads} of the mean thread's \
        such accesses or more. Of their places those count that have one part in {places} of the thread's accesses, or of its \
        contended ones.";
    /// Enough of the run.
    worth(share) = "The line lost at least {share} of all threads' time; samples tell no time.";
    /// Nothing of it.
    no_verdict() = "One of these does not hold:";
    /// Most of the loss is by layout.
    mostly_layout(share) = "Of what the line's fights lost, at least {share} is lost by those that end when the bytes \
                            lie on different lines.";
    /// Hardly anything of the loss is by layout.
    hardly_layout(share) = "Of what the line's fights lost, at most {share} is lost by those that end when the bytes \
                            lie on different lines.";
    /// A part of the loss is by layout.
    partly_layout(least, most) = "Of what the line's fights lost, more than {least} and less than {most} is lost by \
                                  those that end when the bytes lie on different lines.";
    /// The costlier of two kinds.
    costlier(kind, other) = "Fights by {kind} lost no less than those by {other}.";
    /// Meaning of read-mostly bytes.
    read_mostly(reads) = "Read-mostly bytes are fetched unchanged at least {reads} times as often as a visit writes \
                          them, and are part of no lock.";
    /// Meaning of true sharing.
    same_bytes() = "Bytes are truly shared where a thread reads what another one wrote, or writes what another one \
                    used, since it used them itself.";
    /// Meaning of a lock.
    is_lock(loads) = "A lock is an object of a lock's type; else bytes that two threads hit with locked operations, if \
        they store to them plainly as well, store to common bytes beside them, or read them at least {loads} times as \
        often as they lock them.";

    /// Meaning of a shared pair.
    shares_pair(contended) = "A pair is shared where the machine fetches both lines of 128 aligned bytes, one thread \
        alone has this line, and others find the other line gone at least {contended} times.";

    /// A verdict for another share.
    otherwise(share, verdicts) = "With {share} lost by fights that another layout ends it is {verdicts}.";
    /// A share below a limit.
    less_than(share) = "less than {share}";
    /// A share above a limit.
    more_than(share) = "more than {share}";
    /// A share up to a limit.
    at_most(share) = "at most {share}";
    /// A share from a limit on.
    at_least(share) = "at least {share}";
    /// The other of two kinds.
    other_kind(kind, verdict) = "Where fights by {kind} lose more, it is {verdict}.";
    /// Either of two verdicts.
    either(one, other) = "{one} or {other}";
    /// A line that is not worth it.
    below(share) = "Below {share} of all threads' time it gets no verdict.";
    /// Rule by which lines are contended.
    more_hand_overs() = "More hand-overs between threads, or a larger loss, give it a verdict.";

    /// Contended accesses of a line, as a condition.
    contended() = "accesses that took the line from another CPU";
    /// The same beside all accesses.
    for_each() = "accesses to the line for each of them";
    /// Those with no byte in common, beside the conditions.
    disjoint() = "between threads with no byte in common, of these";
    /// Loss of a line, as a condition.
    of_run() = "lost, of all threads' time";
    /// Loss by layout, as a condition.
    by_layout() = "lost by fights that another layout ends";
    /// Loss by one kind of fights, as a condition.
    by_kind(kind, other) = "lost by {kind}, against {other}";

    /// A line with too little of the run.
    run_below(least, found) = "Below {least} of all threads' time it would have no verdict; it lost {found}.";
    /// Another share of the loss by layout.
    layout_would(share, found, verdict) = "With {share} lost by fights that another layout ends instead of {found}, it \
                                           would be {verdict}.";
    /// A fight that ends.
    without(kind, places, cost, verdict) = "Without the fight by {kind}{places}, which lost {cost}, it would be {verdict}.";
    /// Places of a fight.
    over(places) = " over {places}";
    /// The only fight.
    without_all() = "Without its only fight nobody would take the line from another CPU.";
    /// The same verdict, however a fight ends.
    none_alone() = "No single fight decides: without any one of them the verdict is the same.";
    /// Signs of a lock in a line.
    locked_by(count, places) = "Signs of a lock: {count} locked operations{places}.";
    /// The sign of a lock that nobody locks by an operation.
    locked_by_type() = "Signs of a lock: its type.";
    /// Other findings of a kind.
    others(numbers) = "Others of this kind: {numbers}.";
    /// No such finding.
    no_finding(kind) = "No finding is of the kind {kind}, and no line has such a fight worth a word.";
}
