/* Who may send and who may write: the lease of a lane, its epoch as a fence, and the progress of a relay on PostgreSQL.

   Several relays share one lane. Each may be paused anywhere (any other process may run between two of its steps), may
   crash and start again, and may lose its lease to another without knowing. The row of the lane in the database is
   (window, position): everything in earlier windows is settled, and in this window everything up to the position. A
   relay reads the row once, when it takes the lane, and goes on in memory from there. Each write carries the epoch
   under which the lane was taken, and is refused when the row has another one.

   The sink may confirm, or lose the answer after it took the event, or before. All events are of one key.

   Checked for every order of steps: what the row says is settled was delivered (nothing is lost), the first delivery
   of each event comes behind those before it (order), the row never moves back, and when crashes and lost leases end,
   everything is delivered and settled.

   Broken on purpose, each of which Spin must find:
     NO_FENCE      a write is accepted whatever its epoch
     SAME_EPOCH    whoever takes the lane keeps the epoch of the one before
     SETTLE_FIRST  an event is settled before the sink has confirmed it
     NO_EXPIRY     the lease of one who crashed does not end
*/
#define RELAYS 2
#define WINDOWS 2
#define EVENTS 2 /* in each window */
#define ALL (WINDOWS * EVENTS)

/* Faults come to an end, so that progress can be judged. */
byte crashes_left = 2;
byte expiries_left = 2;
byte lost_answers_left = 2;

/* The row of the lane. */
byte epoch = 0;
bool is_taken = false; /* by a lease that has not ended */
byte row_window = 0;
byte row_position = 0;

/* The sink: it has everything up to this event at least once. */
byte delivered = 0;

#define settled(window, position) ((window) * EVENTS + (position))

#ifdef NO_FENCE
#define may_write(mine) true
#else
#define may_write(mine) ((mine) == epoch)
#endif

inline check() {
  assert(settled(row_window, row_position) <= delivered) /* nothing is lost */
}

/* One UPDATE ... WHERE epoch = mine. `written` is whether it found the row. */
inline write(new_window, new_position) {
  d_step {
    written = may_write(my_epoch);
    if
    :: written ->
       assert(settled(new_window, new_position) >= settled(row_window, row_position)); /* never back */
       row_window = new_window;
       row_position = new_position
    :: else
    fi
  }
  check()
}

/* The position alone, as a relay writes it while it is in a window: it knows which one. */
inline write_position(new_position) {
  d_step {
    written = may_write(my_epoch);
    if
    :: written -> row_position = new_position
    :: else
    fi
  }
  check()
}

inline send(event) {
  atomic {
    if
    :: true -> /* the sink takes it */
       assert(event <= delivered + 1); /* the first delivery of each is behind those before it */
       if
       :: event > delivered -> delivered = event
       :: else
       fi;
       if
       :: confirmed = true
       :: lost_answers_left > 0 -> lost_answers_left--; confirmed = false
       fi
    :: lost_answers_left > 0 -> lost_answers_left--; confirmed = false /* it never came there */
    fi
  }
}

active [RELAYS] proctype relay() {
  byte my_epoch = 0;
  byte window = 0;
  byte position = 0;   /* confirmed up to here */
  byte written_to = 0; /* of it, so much is in the row */
  bool confirmed = false;
  bool written = false;

acquire:
  my_epoch = 0; window = 0; position = 0; written_to = 0; confirmed = false; written = false;
  if
  :: atomic { !is_taken && settled(row_window, row_position) < ALL ->
       is_taken = true;
#ifndef SAME_EPOCH
       epoch++;
#endif
       my_epoch = epoch;
       window = row_window;
       position = row_position;
       written_to = row_position
     }
  :: settled(row_window, row_position) == ALL -> goto finished
  fi;

work:
  if
  :: crashes_left > 0 -> atomic { crashes_left--; goto acquire } /* whatever it knew is gone; its lease ends by itself */
  :: position < EVENTS ->
#ifdef SETTLE_FIRST
     write_position(position + 1);
     if
     :: written -> written_to = position + 1
     :: else -> goto acquire
     fi;
#endif
     send(settled(window, position) + 1);
     if
     :: confirmed -> position++
     :: else /* the same one again, before all others */
     fi
  :: position > written_to ->
     write_position(position);
     if
     :: written -> written_to = position
     :: else -> goto acquire /* somebody else has the lane */
     fi
  :: position == EVENTS && written_to == EVENTS && window + 1 < WINDOWS ->
     write(window + 1, 0);
     if
     :: written -> window++; position = 0; written_to = 0
     :: else -> goto acquire
     fi
  :: position == EVENTS && written_to == EVENTS && window + 1 == WINDOWS ->
     goto finished
  fi;
  goto work;

finished:
  skip
}

/* Time: a lease ends while its owner is paused, or after he crashed. He does not hear of it. */
active proctype clock() {
end:
  do
  :: atomic { is_taken && expiries_left > 0 -> expiries_left--; is_taken = false }
#ifndef NO_EXPIRY
  /* When faults are over, that of one who crashed ends, too. */
  :: atomic { is_taken && expiries_left == 0 && timeout -> is_taken = false }
#endif
  od
}

ltl progress { <> (settled(row_window, row_position) == ALL) }
