// What LOAD and STORE share: a checked word, cut into its DRAM side and its scratchpad side; the CRC of table images.
// The checker makes both sides; the burst generator walks the first, the cell walker the second.
// Widths hold every legal word: a scratchpad has at most 2^16 words, a merged run is shorter than 2^48 bytes.

package dpu_dma_pkg;

  parameter int unsigned SlotW = $clog2(dpu_pkg::WordsInFlight);
  parameter int unsigned BurstBytesW = 13;  // 1 .. 4096
  parameter int unsigned BeatBytesW = 7;  // 1 .. 64
  parameter int unsigned StepBytesW = 9;  // 0 .. 256: the widest scratchpad word, VBUF at 128 columns
  parameter int unsigned Int4Group = 128;  // rows of one int4 block

  typedef logic [SlotW-1:0] slot_t;

  typedef enum logic [2:0] {
    KindRaw,
    KindFill,
    KindInt4,
    KindTranspose,
    KindTable
  } kind_e;

  // The DRAM side: runs of `run` bytes at address + i1 d[0] + i2 d[1] + i3 d[2], contiguous dimensions merged.
  typedef struct packed {
    slot_t               slot;
    dpu_isa_pkg::error_e code;     // not ErrorNone: the word is illegal
    logic                none;     // no DRAM access
    logic                counted;  // its bytes are payload
    logic [63:0]         address;
    logic [47:0]         run;
    logic [2:0][15:0]    n;
    logic signed [2:0][31:0] d;
  } runs_t;

  // The scratchpad side: cells of `inner` bytes at sram + i1 s[0] + i2 s[1] + i3 s[2].
  // TRANSPOSE: the cell is the whole tile, made of `turn_runs` runs of `turn_bytes`. TABLE: sram counts 16-byte chunks.
  typedef struct packed {
    slot_t                slot;
    dpu_isa_pkg::error_e  code;
    logic                 empty;  // nothing is moved
    kind_e                kind;
    dpu_isa_pkg::buffer_e buffer;
    logic [7:0]           fill;
    logic                 table_slot;
    logic [15:0]          sram;
    logic [31:0]          inner;
    logic [2:0][16:0]     cells;  // padding included
    logic [1:0][7:0]      pad_before;
    logic [2:0][15:0]     n;
    logic [2:0][15:0]     s;
    logic [7:0]           turn_runs;
    logic [7:0]           turn_bytes;
  } walk_t;

  // One step of the cell walker: one scratchpad word, or int4's group integers.
  typedef struct packed {
    slot_t                  slot;
    dpu_isa_pkg::error_e    code;
    logic                   empty;
    kind_e                  kind;
    dpu_isa_pkg::buffer_e   buffer;
    logic [7:0]             fill;
    logic                   table_slot;
    logic [15:0]            addr;
    logic [StepBytesW-1:0]  bytes;  // of the cell in this word
    logic                   data;   // they come from DRAM, not from `fill`
    logic                   group;  // int4's group integers: nothing is written
    logic                   last;   // of the word
  } step_t;

  // CRC32 (reflected 0xEDB88320) is linear: row i says which bits of state ^ data make bit i of the next state.
  typedef logic [31:0][127:0] crc_rows_t;

  function automatic crc_rows_t crc_rows(input int unsigned bits);
    crc_rows_t rows;
    logic [31:0] column;
    rows = '0;
    column = 32'h1;  // what the last bit turns into, then the one before it, ...
    for (int unsigned j = 0; j < bits; j++) begin
      column = column[0] ? (column >> 1) ^ 32'hEDB8_8320 : column >> 1;
      for (int unsigned i = 0; i < 32; i++) rows[i][bits-1-j] = column[i];
    end
    return rows;
  endfunction

  localparam crc_rows_t CrcRows16 = crc_rows(128);
  localparam crc_rows_t CrcRows12 = crc_rows(96);

  // The state after 16 more bytes, or after the first 12 of them.
  function automatic logic [31:0] crc_step(input logic [31:0] state, input logic [127:0] data, input logic twelve);
    logic [127:0] in;
    logic [31:0] next;
    in = data;
    in[31:0] = data[31:0] ^ state;
    for (int unsigned i = 0; i < 32; i++) begin
      next[i] = twelve ? ^(in & CrcRows12[i]) : ^(in & CrcRows16[i]);
    end
    return next;
  endfunction

endpackage
