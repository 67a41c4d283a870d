// What travels between the stages of the MXU: a checked word, and what a row carries through the array.
//
// Addresses have 16 bits, the most that a scratchpad may have; a module cuts them to its buffer.

package dpu_mxu_pkg;

  // A word that passed the checks. Counts are stored as their last index (count - 1).
  typedef struct packed {
    logic [31:0]           index;
    logic [15:0]           act;
    logic [15:0]           wgt;
    logic [15:0]           acc;
    logic [15:0]           nx_last;
    logic [15:0]           ny_last;
    logic [15:0]           sx;
    logic [15:0]           sy;
    logic [15:0]           nc_last;
    logic [15:0]           sc;
    logic [7:0]            nkx_last;
    logic [7:0]            nky_last;
    logic [15:0]           skx;
    logic [15:0]           sky;
    logic [15:0]           nn_last;
    logic [15:0]           k_last;  // weight tiles of one column tile
    logic [15:0]           wn;
    logic [15:0]           an;
    dpu_isa_pkg::mm_mode_e mode;
    dpu_isa_pkg::row_max_e rowmax;
    logic [15:0]           rowmax_at;
    logic [15:0]           init_at;
    logic [15:0]           valid;
  } job_t;

  // A row on its way through the array: where its sums go.
  typedef struct packed {
    logic [15:0] acc;      // ACC address
    logic [15:0] rowmax;   // PARAM address of its row maximum
    logic [7:0]  cols;     // columns of this tile in the row maximum; 0: it has no part in one
    logic        replace;  // the maximum replaces what PARAM holds
    logic        add;      // add what ACC holds
    logic        last;     // of its word
  } row_t;

  // Rows of a DSP cascade, and columns that one activation register serves: the side of a block of the array.
  parameter int unsigned Chain = 8;

  // Blocks along each side of the array.
  function automatic int unsigned chains(int unsigned cols);
    return cols > Chain ? cols / Chain : 1;
  endfunction

  // Cycles from a row's activations to its sums. A packed block takes one more.
  function automatic int unsigned array_latency(int unsigned cols, bit is_packed);
    return cols + chains(cols) + (is_packed ? chains(cols) : 0);
  endfunction

  // Register levels of the row maximum's tree: two comparisons between two registers.
  function automatic int unsigned tree_stages(int unsigned cols);
    int unsigned levels = $unsigned($clog2(cols));
    return (levels + 1) / 2;
  endfunction

endpackage
