// The counters of one tile: words, cycles by what an engine did in them, DRAM bytes, numeric exceptions.
// In each cycle at most one of busy, wait, port and empty is set for an engine. `clear_i` zeroes all of them.
// A read takes the offset inside the tile's register block and gives the whole value a cycle later.

module dpu_counters (
  input  logic             clk_i,
  input  logic             rst_ni,
  input  logic             clear_i,

  input  logic [3:0]       done_i,
  input  logic [3:0]       busy_i,
  input  logic [3:0]       wait_i,
  input  logic [3:0]       port_i,
  input  logic [3:0]       empty_i,
  input  logic [3:0][31:0] at_i,
  input  logic [31:0]      fetched_i,
  input  logic [31:0]      overflows_i,
  input  logic [31:0]      nans_i,
  input  logic [31:0]      read_bytes_i,
  input  logic [31:0]      written_bytes_i,

  input  logic             read_i,
  input  logic [7:2]       offset_i,
  output logic [63:0]      value_o,
  output logic             wide_o,  // a value of 64 bits
  output logic             high_o   // the offset names its upper half
);

  import dpu_isa_pkg::*;

  // Offsets inside the block, from those of tile 0.
  localparam int unsigned Fetched   = RegTileFetched - RegTileProgramLo;
  localparam int unsigned Overflows = RegTileFp16Overflows - RegTileProgramLo;
  localparam int unsigned Nans      = RegTileNans - RegTileProgramLo;
  localparam int unsigned Read      = RegTileReadBytesLo - RegTileProgramLo;
  localparam int unsigned Written   = RegTileWrittenBytesLo - RegTileProgramLo;
  localparam int unsigned Engine    = RegTileLoadWords - RegTileProgramLo;
  localparam int unsigned Stride    = RegTileMxuWords - RegTileLoadWords;
  localparam int unsigned At        = RegTileLoadAt - RegTileLoadWords;
  localparam int unsigned Busy      = RegTileLoadBusyLo - RegTileLoadWords;
  localparam int unsigned Wait      = RegTileLoadStallWaitLo - RegTileLoadWords;
  localparam int unsigned Port      = RegTileLoadStallPortLo - RegTileLoadWords;
  localparam int unsigned Empty     = RegTileLoadStallEmptyLo - RegTileLoadWords;

  logic [3:0][31:0] words_q;
  logic [3:0][63:0] busy_q, wait_q, port_q, empty_q;
  logic [31:0]      overflows_q, nans_q;
  logic [63:0]      read_q, written_q;

  function automatic logic [31:0] saturated(input logic [31:0] a, input logic [31:0] b);
    logic [32:0] sum;
    sum = 33'(a) + 33'(b);
    return sum[32] ? '1 : sum[31:0];
  endfunction

  for (genvar e = 0; e < 4; e++) begin : gen_engine
    always_ff @(posedge clk_i or negedge rst_ni) begin
      if (!rst_ni) begin
        words_q[e] <= '0;
        busy_q[e]  <= '0;
        wait_q[e]  <= '0;
        port_q[e]  <= '0;
        empty_q[e] <= '0;
      end else if (clear_i) begin
        words_q[e] <= '0;
        busy_q[e]  <= '0;
        wait_q[e]  <= '0;
        port_q[e]  <= '0;
        empty_q[e] <= '0;
      end else begin
        if (done_i[e]) words_q[e] <= words_q[e] + 32'd1;
        if (busy_i[e]) busy_q[e] <= busy_q[e] + 64'd1;
        if (wait_i[e]) wait_q[e] <= wait_q[e] + 64'd1;
        if (port_i[e]) port_q[e] <= port_q[e] + 64'd1;
        if (empty_i[e]) empty_q[e] <= empty_q[e] + 64'd1;
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      overflows_q <= '0;
      nans_q      <= '0;
      read_q      <= '0;
      written_q   <= '0;
    end else if (clear_i) begin
      overflows_q <= '0;
      nans_q      <= '0;
      read_q      <= '0;
      written_q   <= '0;
    end else begin
      if (overflows_i != '0) overflows_q <= saturated(overflows_q, overflows_i);
      if (nans_i != '0) nans_q <= saturated(nans_q, nans_i);
      read_q    <= read_q + 64'(read_bytes_i);
      written_q <= written_q + 64'(written_bytes_i);
    end
  end

  // Reading: the value at a word offset of the block, and whether it has 64 bits.

  typedef struct packed {
    logic        wide;
    logic [63:0] value;
  } found_t;

  function automatic logic here(input logic [5:0] place, input int unsigned at, input logic wide);
    return (place == 6'(at / 4)) | (wide & (place == 6'(at / 4 + 1)));
  endfunction

  found_t     found_d, found_q;
  logic       high_q;
  logic [5:0] offset;

  assign offset = offset_i;

  always_comb begin
    found_d = '0;
    if (read_i) begin  // an idle port costs no simulation time
      if (here(offset, Fetched, 1'b0)) found_d.value = 64'(fetched_i);
      if (here(offset, Overflows, 1'b0)) found_d.value = 64'(overflows_q);
      if (here(offset, Nans, 1'b0)) found_d.value = 64'(nans_q);
      if (here(offset, Read, 1'b1)) found_d = {1'b1, read_q};
      if (here(offset, Written, 1'b1)) found_d = {1'b1, written_q};
      for (int unsigned e = 0; e < 4; e++) begin
        if (here(offset, Engine + Stride * e, 1'b0)) found_d.value = 64'(words_q[e]);
        if (here(offset, Engine + Stride * e + At, 1'b0)) found_d.value = 64'(at_i[e]);
        if (here(offset, Engine + Stride * e + Busy, 1'b1)) found_d = {1'b1, busy_q[e]};
        if (here(offset, Engine + Stride * e + Wait, 1'b1)) found_d = {1'b1, wait_q[e]};
        if (here(offset, Engine + Stride * e + Port, 1'b1)) found_d = {1'b1, port_q[e]};
        if (here(offset, Engine + Stride * e + Empty, 1'b1)) found_d = {1'b1, empty_q[e]};
      end
    end
  end

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      found_q <= '0;
      high_q  <= 1'b0;
    end else if (read_i) begin
      found_q <= found_d;
      high_q  <= offset[0];
    end
  end

  assign value_o = found_q.value;
  assign wide_o  = found_q.wide;
  assign high_o  = found_q.wide & high_q;

endmodule
