// Walks a word beat by beat (tile outer, row, beat of L columns inner) and lets a beat into the lanes when its operands
// are there and everything behind the lanes has room, so that the lanes never stall.
// RECIP and RSQRT take a beat in parts of NarrowLanes lanes; vector mode takes L rows as a beat.

module dpu_vpu_sequence
  import dpu_isa_pkg::*;
  import dpu_vpu_pkg::*;
#(
  parameter int unsigned Cols = 8,
  parameter int unsigned Lanes = 8,
  parameter int unsigned DRoom = 32,  // beats that the PARAM results' buffer takes
  parameter int unsigned RowRoom = 64  // rows that the row reduction's buffer takes
) (
  input  logic       clk_i,
  input  logic       rst_ni,
  input  logic       stop_i,

  // the word, and when its last beat goes
  input  logic       word_valid_i,  // of the word that would begin next
  /* verilator lint_off UNUSEDSIGNAL */  // a struct comes whole
  input  config_t    word_i,
  input  config_t    config_i,  // of the word that has begun
  /* verilator lint_on UNUSEDSIGNAL */
  input  logic       order_ready_i,  // it may begin: nothing behind the lanes would be overtaken
  output logic       begins_o,
  output logic       ends_o,
  output logic       active_o,

  // operands
  input  logic       a_valid_i,
  input  logic       b_valid_i,
  input  logic       row_valid_i,
  input  logic       col_valid_i,
  output logic       a_pop_o,
  output logic       b_pop_o,
  output logic       row_pop_o,
  output logic       col_pop_o,

  // room behind the lanes, given back
  input  logic       d_taken_i,  // a beat of PARAM results was written
  input  logic       row_taken_i,  // a row was accumulated
  input  logic       col_room_i,  // results of a tile's columns fit

  output logic       tile_begins_o,  // of a word that reduces columns
  output logic       fire_o,
  output control_t   control_o,
  output logic [15:0] row_o
);

  localparam int unsigned Beats = Cols / Lanes;
  localparam int unsigned Parts = (Lanes > NarrowLanes) ? Lanes / NarrowLanes : 1;
  localparam int unsigned DCountW = $clog2(DRoom + 1);
  localparam int unsigned RowCountW = $clog2(RowRoom + 1);

  logic        active_q;
  logic [15:0] row_q, d_tile_q, d_row_q;
  logic [7:0]  tile_q;  // left, with this one
  logic [6:0]  g_q;
  logic [5:0]  part_q;
  logic [DCountW-1:0]   d_used_q;
  logic [RowCountW-1:0] row_used_q;
  logic        pair_q;  // the beat before ends two words of the result
  logic [9:0]  tail_q;  // cycles until the column accumulators are free

  logic [7:0]  count;
  logic [6:0]  last_g;
  logic        last_tile, last_row, last_part, row_last, tile_last, word_last, first, done, pair, reduces;
  logic        to_param, room, operands;

  assign last_tile = tile_q == 8'd1;
  assign last_g    = last_tile ? 7'((32'(config_i.valid) - 1) / Lanes) : 7'(Beats - 1);
  assign last_row  = config_i.vector ? 32'(config_i.rows) - 32'(row_q) <= Lanes : row_q == config_i.rows - 16'd1;
  assign first     = (row_q == '0) & (g_q == '0) & (part_q == '0);

  always_comb begin
    count = 8'(Lanes);
    if (config_i.vector) begin
      if (last_row) count = 8'(config_i.rows - row_q);
    end else if (last_tile && g_q == last_g) begin
      count = 8'(32'(config_i.valid) - 32'(g_q) * Lanes);
    end
  end

  assign last_part = !config_i.narrow | (Parts == 1) | (32'(part_q) == (32'(count) - 1) / NarrowLanes);
  assign row_last  = g_q == last_g;
  assign tile_last = row_last & last_row;
  assign word_last = tile_last & last_tile;

  assign reduces   = config_i.red != ReduceNone;
  assign to_param  = config_i.d_buffer == BufferParam;
  assign pair      = (config_i.d_buffer == BufferVbuf && config_i.d_format == FormatF32) |
                     (config_i.d_buffer == BufferAct && config_i.d_format == FormatI15Split);
  assign operands  = a_valid_i & (!config_i.b.used | b_valid_i) & (config_i.row_used == '0 | row_valid_i) &
                     (config_i.col_used == '0 | col_valid_i);
  assign room      = !(to_param & d_used_q == DCountW'(DRoom)) &
                     !(reduces & !config_i.red_columns & row_used_q == RowCountW'(RowRoom)) &
                     !(reduces & config_i.red_columns & first & (tail_q != '0 | !col_room_i)) &
                     !(pair_q & row_last & last_part);
  assign fire_o    = active_q & operands & room;
  assign done      = fire_o & last_part;
  assign active_o  = active_q;
  assign tile_begins_o = fire_o & first & reduces & config_i.red_columns;
  assign ends_o    = done & word_last;
  assign begins_o  = word_valid_i & order_ready_i & !stop_i & (!active_q | ends_o);

  assign a_pop_o = done & (row_last | config_i.a.buffer == BufferParam);
  assign b_pop_o = done & config_i.b.used & (row_last | config_i.b.buffer == BufferParam);
  assign row_o         = row_q;

  // Row scalars of one group serve all tiles when the word has no more rows.
  logic one_group, group_last;
  assign one_group  = config_i.rows <= 16'(Lanes);
  assign group_last = last_row | config_i.vector | (32'(row_q) % Lanes == Lanes - 1);
  assign row_pop_o  = done & row_last & group_last & (config_i.row_used != '0) & (!one_group | last_tile);
  assign col_pop_o  = done & tile_last & (config_i.col_used != '0);

  always_comb begin
    control_o = '0;
    if (fire_o) begin
      control_o.a_format    = config_i.a.format;
      control_o.b_format    = config_i.b.format;
      control_o.subtract    = config_i.row_used[Sub];
      for (int unsigned k = 0; k < Factors; k++) control_o.factor[k] = config_i.kind[k] != OperandNone;
      control_o.a2_elem     = config_i.kind[FactorA2] == OperandElem;
      control_o.b2_elem     = config_i.kind[FactorB2] == OperandElem;
      control_o.op2_elem    = config_i.op2_kind == OperandElem;
      control_o.func        = config_i.func;
      control_o.slot        = config_i.slot;
      control_o.op2         = config_i.op2;
      control_o.part        = part_q;
      control_o.drop        = !last_part;
      control_o.count       = count;
      control_o.d_buffer    = config_i.d_buffer;
      control_o.d_format    = config_i.d_format;
      control_o.d_at        = d_row_q + (to_param ? 16'(g_q) * 16'(Lanes) : '0);
      control_o.d_plane     = config_i.d_plane;
      control_o.g           = g_q;
      control_o.row_last    = row_last;
      control_o.word_last   = word_last;
      control_o.trap        = config_i.trap;
      control_o.red         = config_i.red;
      control_o.red_columns = config_i.red_columns;
      control_o.red_integer = config_i.red_integer;
      control_o.fresh       = row_q < 16'(Accumulators);
      control_o.accumulator = row_q[2:0];
      control_o.tile_last   = tile_last;
    end
  end

  // Cycles that the tail of a column reduction takes (dpu_vpu_columns): three levels, and the initial values.
  function automatic logic [9:0] tail(logic [6:0] last, logic accumulate, logic squares);
    logic [9:0] n;
    n = 10'(last) + 10'd1;
    return 10'd7 * n + 10'd6 + (accumulate ? (n << squares) + 10'd2 : 10'd0);
  endfunction

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      active_q   <= 1'b0;
      d_used_q   <= '0;
      row_used_q <= '0;
      pair_q     <= 1'b0;
      tail_q     <= '0;
    end else begin
      if (begins_o) active_q <= 1'b1;
      else if (ends_o) active_q <= 1'b0;
      d_used_q   <= d_used_q + DCountW'((done && to_param)) - DCountW'(d_taken_i);
      row_used_q <= row_used_q + RowCountW'((done && row_last && reduces && !config_i.red_columns)) -
                    RowCountW'(row_taken_i);
      pair_q     <= done & row_last & pair;
      if (done && tile_last && reduces && config_i.red_columns) begin
        tail_q <= tail(last_g, config_i.red_accumulate, config_i.red == ReduceSumSq);
      end else if (tail_q != '0) begin
        tail_q <= tail_q - 10'd1;
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (begins_o) begin
      row_q    <= '0;
      tile_q   <= word_i.tiles;
      g_q      <= '0;
      part_q   <= '0;
      d_row_q  <= word_i.d;
      d_tile_q <= word_i.d + word_i.d_ts;
    end else if (fire_o) begin
      part_q <= last_part ? '0 : part_q + 6'd1;
      if (last_part) begin
        g_q <= row_last ? '0 : g_q + 7'd1;
        if (tile_last) begin
          row_q    <= '0;
          tile_q   <= tile_q - 8'd1;
          d_row_q  <= d_tile_q;
          d_tile_q <= d_tile_q + config_i.d_ts;
        end else if (row_last) begin
          row_q   <= row_q + (config_i.vector ? 16'(Lanes) : 16'd1);
          d_row_q <= d_row_q + (config_i.vector ? 16'(Lanes) : config_i.d_rs);
        end
      end
    end
  end

endmodule
