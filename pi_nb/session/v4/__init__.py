"""pi_nb's own form of a session: strict, with lanes. `lines` is its grammar."""
