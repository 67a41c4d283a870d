// Joins the reads of LOAD (ID 0) and of instruction fetch (ID 1) into the tile's AXI read channels.
// Fetch goes first: it asks once in many words. An address is registered, so that on the bus it stays until accepted.
// Data go by their ID, beat by beat; beats of the two may be mixed.

module dpu_axi_read (
  input  logic               clk_i,
  input  logic               rst_ni,

  input  logic               load_ar_valid_i,
  output logic               load_ar_ready_o,
  input  dpu_pkg::axi_addr_t load_ar_addr_i,
  input  logic [7:0]         load_ar_len_i,
  output logic               load_r_valid_o,
  input  logic               load_r_ready_i,

  input  logic               fetch_ar_valid_i,
  output logic               fetch_ar_ready_o,
  input  dpu_pkg::axi_addr_t fetch_ar_addr_i,
  input  logic [7:0]         fetch_ar_len_i,
  output logic               fetch_r_valid_o,
  input  logic               fetch_r_ready_i,

  output logic               ar_valid_o,
  input  logic               ar_ready_i,
  output logic [0:0]         ar_id_o,
  output dpu_pkg::axi_addr_t ar_addr_o,
  output logic [7:0]         ar_len_o,
  input  logic               r_valid_i,
  output logic               r_ready_o,
  input  logic [0:0]         r_id_i
);

  logic               valid_q, id_q;
  dpu_pkg::axi_addr_t addr_q;
  logic [7:0]         len_q;
  logic               free;

  assign free             = ~valid_q | ar_ready_i;
  assign fetch_ar_ready_o = free;
  assign load_ar_ready_o  = free & ~fetch_ar_valid_i;

  assign ar_valid_o = valid_q;
  assign ar_id_o    = id_q;
  assign ar_addr_o  = addr_q;
  assign ar_len_o   = len_q;

  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      id_q    <= 1'b0;
      addr_q  <= '0;
      len_q   <= '0;
    end else if (free) begin
      valid_q <= fetch_ar_valid_i | load_ar_valid_i;
      if (fetch_ar_valid_i || load_ar_valid_i) begin
        id_q   <= fetch_ar_valid_i;
        addr_q <= fetch_ar_valid_i ? fetch_ar_addr_i : load_ar_addr_i;
        len_q  <= fetch_ar_valid_i ? fetch_ar_len_i : load_ar_len_i;
      end
    end
  end

  assign load_r_valid_o  = r_valid_i & ~r_id_i;
  assign fetch_r_valid_o = r_valid_i & r_id_i;
  assign r_ready_o       = r_id_i ? fetch_r_ready_i : load_r_ready_i;

endmodule
