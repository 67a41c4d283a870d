"""What is proved with sby: one entry a wrapper and way of proving it, with the bugs that its proof must catch."""

from __future__ import annotations

from .solve import Bug, Edit, Subject

_ONE_TOKEN = Edit("dpu_isa_pkg", "parameter int unsigned MaxTokens = 255;", "parameter int unsigned MaxTokens = 1;")
_THREE_TOKENS = Edit(_ONE_TOKEN.file, _ONE_TOKEN.before, _ONE_TOKEN.after.replace("= 1;", "= 3;"))

_LOW_STRIDES = Edit(
    "dpu_dma_check",
    "for (int unsigned k = 0; k < 5; k++) if (d[26+k]) high",
    "for (int unsigned k = 0; k < 1; k++) if (d[26]) high",
)
"""Strides of 27 bits: spans of 32 have six more additions, on which the search for a bug hangs."""

SUBJECTS = (
    Subject(
        "fifo",
        "dpu_fifo_formal",
        "dpu_fifo",
        ("FIFOs never over- or underflow; words come out in order, unchanged",),
        "depth 5 (no power of two), 8 bits; one word, any, is followed",
        3,
        (
            Bug("dpu_fifo", "count_q != CountW'(Depth)", "1'b1", "takes words when full"),
            Bug("dpu_fifo", "rd_valid_o & rd_ready_i", "rd_ready_i", "pops when empty"),
            Bug("dpu_fifo", "(ptr == PtrW'(Depth - 1)) ? '0 :", "", "pointers wrap at a power of two"),
        ),
        bug_depth=9,
        quick=True,
    ),
    Subject(
        "semaphores",
        "dpu_semaphores_formal",
        "dpu_semaphores",
        ("no semaphore over- or underflows, a mask bit means its semaphore, local and remote",),
        "255 tokens, 2 tiles; one semaphore and one tile, any; covers with 3 tokens",
        3,
        (
            Bug(
                "dpu_semaphores",
                "give[i] & (count_q[i] == CountW'(Max - 1))",
                "give[i] & (count_q[i] == CountW'(Max))",
                "full one token late",
            ),
            Bug(
                "dpu_semaphores",
                "give[i] | (count_q[i] != CountW'(1))",
                "1'b1",
                "a token is left when the last was taken",
            ),
            Bug(
                "dpu_semaphores",
                "signal_mask_i[p][Each*c+:Each]",
                "signal_mask_i[p][Each*p+:Each]",
                "signals go to another pair",
            ),
            Bug("dpu_semaphores", "~((e == Load) & remote_missing)", "1'b1", "remote tokens are not waited for"),
        ),
        cover_reduced=(_THREE_TOKENS,),
        reduced=(),
        bug_depth=6,
        bug_reduced=(_THREE_TOKENS,),
        quick=True,
    ),
    Subject(
        "queue",
        "dpu_queue_formal",
        "dpu_queue, dpu_fifo",
        (
            "queue and ring of started words never over- or underflow; each word starts and signals once, in "
            "order, with its "
            "tokens, DRAIN met",
            "every word that dispatch handed over completes, by ranking: start, done and signals still to come, "
            "of the word and "
            "those before it, fall in each cycle in which tokens, engine and signal room are there",
        ),
        "3 waiting, 4 in flight; one word, any, is followed. Fairness: tokens, engine and room come in the end",
        2,
        (
            Bug("dpu_queue", "running_q + ended_q != CountW'(InFlight)", "1'b1", "no limit of words in flight"),
            Bug("dpu_queue", "rd_valid & wait_ready_i & drained", "rd_valid & drained", "does not wait for tokens"),
            Bug(
                "dpu_queue",
                "| (running_q == '0)",
                "| (running_q == CountW'(1))",
                "DRAIN lets one word pass, and none else",
            ),
            Bug(
                "dpu_queue",
                "if (retire) retire_ptr_q <= next(retire_ptr_q);",
                "if (done_i) retire_ptr_q <= next(retire_ptr_q);",
                "signals of a word held back are lost",
            ),
        ),
        bug_depth=8,
        cover_depth=16,
    ),
    Subject(
        "remote",
        "dpu_remote_formal",
        "dpu_remote",
        ("no token to another tile is lost, made up or sent to a full counter; each arrives, by ranking",),
        "3 tiles, 4 cycles; fairness: a full counter becomes free in the end",
        3,
        (
            Bug(
                "dpu_remote",
                "(mask[ptr_q] & full_i) != '0",
                "(mask[ptr_q] & full_i) == mask[ptr_q]",
                "waits only if all targets are full",
            ),
            Bug(
                "dpu_remote",
                "if (!stuck && (give || valid_q != '0))",
                "if (give || valid_q != '0)",
                "goes on while a target is full",
            ),
        ),
        bug_depth=10,
        quick=True,
    ),
    Subject(
        "axil",
        "dpu_axil_formal",
        "dpu_axil",
        (
            "AXI4-Lite slave: answers stay up until taken, one for each access; each access reaches the "
            "registers once, as given",
        ),
        "nothing assumed; a read is answered in 3 cycles, a write when both halves are there",
        3,
        (
            Bug("dpu_axil", "else if (bready_i) b_q <= 1'b0;", "else b_q <= 1'b0;", "BVALID falls before BREADY"),
            Bug(
                "dpu_axil",
                "aw_q & w_q & (~b_q | bready_i)",
                "aw_q & w_q",
                "a write while an answer waits: its own is lost",
            ),
            Bug(
                "dpu_axil",
                "if (wvalid_i && wready_o) begin",
                "if (wvalid_i) begin",
                "data of the next write overwrite these",
            ),
        ),
        bug_depth=10,
        quick=True,
    ),
    Subject(
        "fetch",
        "dpu_fetch_formal",
        "dpu_fetch, dpu_axi_read, dpu_fifo",
        (
            "AR of the tile: stays until taken, whole beats inside 4 KiB; fetch reads its program and nothing else",
            "room for every beat; quiet means none owed; all words come, or END; never stuck while a word is missing",
        ),
        "full size; any program, beats of fetch and LOAD mixed; assumes the program ends at 2^64 or before",
        2,
        (
            Bug(
                "dpu_fetch",
                "if (left_q < 32'(Burst)) beats = CountW'(left_q);",
                "",
                "the last burst reads on behind the program",
            ),
            Bug(
                "dpu_fetch",
                "if (MaxBurstBeats - 32'(next_q[6+:PageW]) < 32'(beats))",
                "if (1'b0)",
                "bursts cross 4 KiB",
            ),
            Bug(
                "dpu_fetch",
                "(32'(used_q) + 32'(beats) <= FifoWords)",
                "(32'(used_q) <= FifoWords)",
                "asks without room",
            ),
            Bug("dpu_axi_read", "~valid_q | ar_ready_i", "1'b1", "an address on the bus is replaced"),
        ),
        bug_depth=6,
        bug_parameters={"FifoWords": 16},
        cover_depth=24,
    ),
    Subject(
        "bursts",
        "dpu_dma_bursts_formal",
        "dpu_dma_bursts",
        (
            "LOAD, STORE: 1 to 64 beats, never across 4 KiB, not empty; a burst stays until taken; each word's "
            "bursts end, by "
            "ranking: (runs to go, bytes of the run) falls lexicographically with each burst",
        ),
        "full width; assumes of a job what the checker's proof shows",
        2,
        (
            Bug(
                "dpu_dma_bursts",
                "BurstBytesW'(13'h1000) - {1'b0, at_q[11:0]}",
                "BurstBytesW'(13'h1000) - {2'b0, at_q[10:0]}",
                "pages of 2 KiB taken for 4",
            ),
            Bug(
                "dpu_dma_bursts",
                "dim_done[0] ? job_q.n[0] - 16'd1 : togo_q[0] - 16'd1",
                "job_q.n[0] - 16'd1",
                "dimension 1 begins again for ever",
            ),
        ),
        bug_depth=7,
        cover_depth=14,
        quick=True,
    ),
    Subject(
        "bursts-region",
        "dpu_dma_bursts_formal",
        "dpu_dma_bursts",
        ("LOAD, STORE: no burst before the first or behind the last byte of its job",),
        "one job: up to 3 runs a dimension, strides to 15 either way, runs to 15 bytes, in 8 KiB, never held up",
        10,
        (
            Bug(
                "dpu_dma_bursts",
                "row_d = row_q + stride(job_q.d[1]);",
                "row_d = run_q + stride(job_q.d[1]);",
                "a row begins at the last run",
            ),
            Bug(
                "dpu_dma_bursts",
                "plane_d = plane_q + stride(job_q.d[2]);",
                "plane_d = row_q + stride(job_q.d[2]);",
                "a plane begins at the last row",
            ),
        ),
        mode="bmc",
        parameters={"Region": 1, "AddressW": 17},
        cover_depth=14,
    ),
    Subject(
        "check-store",
        "dpu_dma_check_formal",
        "dpu_dma_check",
        ("STORE: a word that passes has all its bytes in its region, the runs it is cut into touch no others",),
        "full width; a pipeline without feedback, so 6 cycles are all; spans are the module's own products",
        6,
        (
            Bug(
                "dpu_dma_check",
                "(below4_q || high4_q > {2'b00, i4_q.limit})",
                "(high4_q > {2'b00, i4_q.limit})",
                "the beginning is not checked",
            ),
            Bug("dpu_dma_check", "+ 51'(i2_q.inner);", ";", "the last run's length is not counted"),
        ),
        mode="bmc",
        parameters={"Store": 1},
        cover_depth=7,
    ),
    Subject(
        "check-load",
        "dpu_dma_check_formal",
        "dpu_dma_check",
        ("LOAD: the same",),
        "as STORE",
        6,
        (
            Bug(
                "dpu_dma_check",
                "if (kind == KindRaw && off_region) code = ErrorRegion;",
                "if (1'b0) code = ErrorRegion;",
                "plain loads are not checked",
            ),
            Bug(
                "dpu_dma_check",
                "i4_q.inner != TableBytes || i4_q.n != {3{16'd1}}",
                "i4_q.n != {3{16'd1}}",
                "a short table is read beyond its end",
            ),
        ),
        mode="bmc",
        parameters={"Store": 0},
        cover_depth=7,
        bug_reduced=(_LOW_STRIDES,),
    ),
    Subject(
        "walk",
        "dpu_dma_walk_formal",
        "dpu_dma_walk",
        (
            "LOAD, STORE: a step stays until taken; each word's steps end, by ranking of (cells to go, bytes of "
            "the cell)",
        ),
        "full width, all kinds",
        2,
        (
            Bug(
                "dpu_dma_walk",
                "left_q <= left_q - 32'(unit);",
                "left_q <= left_q - (group ? 32'd0 : 32'(unit));",
                "group integers take no bytes",
            ),
            Bug(
                "dpu_dma_walk",
                "if (dim_done[0]) i_q[1] <= dim_done[1] ? '0 : i_q[1] + 17'd1;",
                "if (dim_done[0]) i_q[1] <= '0;",
                "dimension 2 begins again for ever",
            ),
        ),
        bug_depth=7,
        cover_depth=10,
        quick=True,
    ),
    Subject(
        "walk-cells",
        "dpu_dma_walk_formal",
        "dpu_dma_walk",
        ("LOAD, STORE: no scratchpad word outside the cells whose end the checker compared",),
        "RAW and FILL; up to 3 cells a dimension, strides to 15, cells to 63 bytes",
        7,
        (
            Bug(
                "dpu_dma_walk",
                "row_d = row_q + job_q.s[1];",
                "row_d = cell_q + job_q.s[1];",
                "a row begins at the last cell",
            ),
            Bug(
                "dpu_dma_walk",
                "job_q.buffer == BufferParam ? 16'(ParamStep) : 16'd1",
                "16'(ParamStep)",
                "every word steps as PARAM",
            ),
        ),
        mode="bmc",
        parameters={"Small": 1},
        cover_depth=12,
    ),
    Subject(
        "load",
        "dpu_load_formal",
        "dpu_load and all below it",
        (
            "LOAD: AR stays until taken, aligned, at most 64 beats inside 4 KiB; as many beats are taken as were "
            "asked for, also "
            "after a stop; quiet means none owed; its ring never over- or underflows",
        ),
        "all words, regions, ports and stops; small buffers, 2 bursts open; assumes of bursts what their proof shows",
        2,
        (
            Bug(
                "dpu_load",
                "6'((13'(gen.address[5:0]) + gen.bytes - 13'd1) >> 6)",
                "6'((gen.bytes - 13'd1) >> 6)",
                "a burst that begins inside a beat is one short",
            ),
            Bug(
                "dpu_load",
                "ar_load | (ar_valid_q & ~ar_ready_i)",
                "ar_load | (ar_valid_q & ~ar_ready_i & ~stop_i)",
                "a stop takes an address back",
            ),
        ),
        bug_depth=11,
        cover_depth=14,
    ),
    Subject(
        "store",
        "dpu_store_formal",
        "dpu_store and all below it",
        (
            "STORE: AW and W stay until taken, aligned, at most 64 beats inside 4 KiB; W follows its address, "
            "WLAST at its "
            "length; every response is awaited, also after a stop; its ring never over- or underflows",
        ),
        "as LOAD",
        2,
        (
            Bug(
                "dpu_store",
                "assign w_free    = !w_valid_q || w_ready_i;",
                "assign w_free    = 1'b1;",
                "a beat on the bus is replaced",
            ),
            Bug(
                "dpu_store",
                "assign quiet_o   = ~open_valid;",
                "assign quiet_o   = ~beats_valid;",
                "quiet while a response is owed",
            ),
            Bug(
                "dpu_store",
                "aw_load | (aw_valid_q & ~aw_fire)",
                "aw_load | (aw_valid_q & ~aw_fire & ~stop_i)",
                "a stop takes an address back",
            ),
        ),
        bug_depth=11,
        cover_depth=14,
    ),
    Subject(
        "load-whole",
        "dpu_load_formal",
        "dpu_load and all below it",
        ("LOAD with nothing assumed of its parts: the same, no word done that was not held, no pop of an empty ring",),
        "as above, counted from reset",
        12,
        (
            Bug(
                "dpu_dma_bursts",
                "BurstBytesW'(13'h1000) - {1'b0, at_q[11:0]}",
                "BurstBytesW'(13'h1000) - {2'b0, at_q[10:0]}",
                "pages of 2 KiB taken for 4",
            ),
        ),
        mode="bmc",
        parameters={"Whole": 1},
        cover_depth=14,
    ),
    Subject(
        "store-whole",
        "dpu_store_formal",
        "dpu_store and all below it",
        ("STORE with nothing assumed of its parts: the same, no word done that was not held",),
        "as above, counted from reset",
        12,
        (
            Bug(
                "dpu_dma_bursts",
                "BurstBytesW'(13'h1000) - {1'b0, at_q[11:0]}",
                "BurstBytesW'(13'h1000) - {2'b0, at_q[10:0]}",
                "pages of 2 KiB taken for 4",
            ),
        ),
        mode="bmc",
        parameters={"Whole": 1},
        cover_depth=14,
    ),
    Subject(
        "control",
        "dpu_control_formal",
        "dpu_control",
        (
            "a fault or the watchdog stops all tiles in the next cycle; stop and RESET end 8 quiet cycles later "
            "and no earlier; "
            "a run ends with DONE when all tiles have",
        ),
        "2 tiles; fairness: memory answers in the end, so that ports become quiet",
        3,
        (
            Bug("dpu_control", "state_q != StClear && tile_quiet_i != '1", "1'b0", "does not wait for open accesses"),
            Bug(
                "dpu_control",
                "expired = running & (watchdog_i != '0) & (still_q >= watchdog_i)",
                "expired = running & (watchdog_i != '0) & (still_q > watchdog_i)",
                "the watchdog is a cycle late",
            ),
            Bug(
                "dpu_control",
                "StDrain: if (settled) state_d = StClear;",
                "StDrain: if (settled && tile_busy_i == '0) state_d = StClear;",
                "RESET waits for tiles that hang",
            ),
        ),
        bug_depth=14,
        cover_depth=28,
        quick=True,
    ),
    Subject(
        "deadlock",
        "dpu_sequencer_formal",
        "dpu_dispatch, 4 dpu_queue, dpu_semaphores",
        (
            "queues do not deadlock: until a verified program has ended, some word can be dispatched, start, end "
            "or signal",
        ),
        "programs of 3 words, any engines, masks, DRAIN, by rule 3 of dpuc verify; queues of 1, 2 in flight, "
        "1 token, one "
        "semaphore a pair; engines of any speed. These four events happen once a word, so 15 cycles are all",
        15,
        (
            Bug(
                "dpu_queue",
                "assign signal_valid_o  = (ended_q != '0) | done_i;",
                "assign signal_valid_o  = ended_q == CountW'(InFlight);",
                "signals wait for a full ring",
            ),
            Bug(
                "dpu_semaphores",
                "(signal_mask_i[e] & full) == '0",
                "full == '0",
                "any full semaphore holds a producer back",
            ),
            Bug(
                "dpu_sequencer_formal",
                "assume (!Verified || legal == '1);",
                "assume (1'b1);",
                "programs that dpuc verify refuses",
            ),
        ),
        mode="bmc",
        reduced=(_ONE_TOKEN,),
        cover_depth=12,
        bug_depth=10,
    ),
)
